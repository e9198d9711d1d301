"""Report on a revision, as a Markdown document (`report`) and as JSON values (`as_json`).

In the Markdown, markup in texts from documents, models and judges is escaped.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from resume_gym.apps.revise.edits import AppliedEdit, FlaggedClaim
from resume_gym.apps.revise.revision import Revision
from resume_gym.support.printing import visible
from resume_gym.support.user_errors import number_of

BY_RULE = """\
Rules compare the revision with your original. They find figures, names, tools, titles, degrees \
and dates that your original lacks, figures that moved to another bullet, bullets that moved to \
another job, and passages that say more than the original. They miss misspelt words, and false \
claims that replace ordinary words with equally many others. They do not know what is true, only \
what your original says. A flagged claim may be true, and an unflagged claim may be false: read \
all changes. In a reason, "the evidence" means other documents about you; here there are none."""
LONG_THOUGHT = 2000
_GRADES = {-1: "worse", 0: "as before", 1: "better"}
_SUPPORT = {-1: "objects", 1: "no objection"}
_OVERALL = {
    -1: "would rather have your original",
    0: "sees no difference that matters",
    1: "would rather have the revision",
}
_LABELS = {"jd_alignment": "fit to the job", "preference": "the whole", "hallucination": "support"}
_MARKUP = re.compile(r"([\\`*_\[\]<&|~])")
_BLOCK = re.compile(r"^[^\S\n]*([#>=+-])", re.MULTILINE)


def report(revision: Revision, names: dict[str, str], notes: list[str]) -> str:
    """Return the report on a revision in Markdown.

    Args:
        revision: revision to describe.
        names: display names, with the keys "resume", "job", "out" and "agent".
        notes: notes on the input files.
    """
    gutted = f": {revision.gutted}" if revision.gutted else ""
    parts = [
        f"# Changes to {_text(names['resume'])}{gutted}",
        *_warnings(revision),
        _facts(revision, names),
        *(f"Note: {_text(note)}" for note in notes),
        "## Edit by edit",
        *(part for change in revision.changes for part in _change(change)),
        "## New claims",
        *_claims(revision.flagged, revision.excess),
        "## Verdict",
        *_verdict(revision),
        "## All changes together",
        _fenced(revision.diff),
    ]
    return "\n\n".join(parts) + "\n"


def outcome(revision: Revision) -> dict[str, str]:
    """Return the results of a revision as short texts, by label."""
    session = revision.session
    lines, limit = revision.lines, revision.limit
    page = number_of(lines, "line")
    if limit:
        over = f"{number_of(lines - limit, 'line')} too long"
        page = f"{lines} of {limit} lines: {'fits' if revision.fits else over}"
    turns = f"{session.turns} of {session.rules.max_turns}"
    count, verdict = len(revision.flagged), session.verdict
    claims = f"{count}: check them" if count else "none found"
    if revision.excess:
        claims = "not checked"
    # a judge may prefer a revision with unsupported claims: qualify its opinion
    doubted = verdict and verdict.hallucination < 0
    opinion = _OVERALL[verdict.preference] if verdict else "no verdict"
    worse = (f"edit {n} ({', '.join(map(label, names))})" for n, names in revision.worse.items())
    reasons = sum(bool(change.said or change.thought) for change in revision.changes)
    if doubted or (verdict and count):
        opinion = _SUPPORT[-1] if doubted else f"apart from these claims, {opinion}"
    return {
        "lines with new claims that lack support": claims,
        f"judge ({revision.judge})": opinion,
        **({"worse by rule": "; ".join(worse)} if revision.worse else {}),
        "page": page,
        "edits": f"{session.state.edits} in {turns} turns; failed calls: {revision.failed_calls}",
        "edits with a reason": f"{reasons} of {len(revision.changes)}",
        "handed in": "yes" if session.state.submitted else "no: the agent ran out of turns",
    }


def _warnings(revision: Revision) -> Iterator[str]:
    if warnings := revision.warnings:
        yield "**Read this before you use the revision:**"
        yield "\n".join(f"- **{_text(warning.rstrip('.'))}.**" for warning in warnings)
        if revision.claims:
            yield "The section [New claims](#new-claims) lists these lines."


def _facts(revision: Revision, names: dict[str, str]) -> str:
    rows = {
        "revision": names["out"],
        "made by": names["agent"],
        "for": names["job"],
        **outcome(revision),
    }
    return "\n".join(["| | |", "|---|---|", *(f"| {k} | {_text(v)} |" for k, v in rows.items())])


def _change(change: AppliedEdit) -> Iterator[str]:
    yield f"### Edit {change.number}"
    yield _fenced(change.diff)
    if change.said:
        yield "Why, in the agent's words:\n\n" + _quoted(change.said)
    elif change.thought:
        yield "Why, from the agent's thought:\n\n" + _quoted(_cut(change.thought))
    yield "By rule: " + _text(by_rule(change))
    for claim in change.claims:
        yield f"**Without support:** {_text(claim.short)}"


def by_rule(change: AppliedEdit) -> str:
    """Describe an edit by the rubric judge's nonzero grades for this edit alone, with reasons."""
    effects = ["the same words in another order"] if change.moved else []
    removed, added = (sum(row[0] == sign for row in change.rows) for sign in "-+")
    if removed > added:
        effects.append(f"{number_of(removed - added, 'line')} fewer")
    if change.moved and all(row.startswith("moved") for row in change.rows):
        effects = ["only the order of lines has changed"]
    for field, grade in change.grades.items():
        reason = change.reasons.get(field, "")
        # the last field, `preference`, often repeats the reason of another field: omit the reason
        if reason and (field != "preference" or reason not in " ".join(effects)):
            effects.append(f"{label(field)}: {_GRADES[grade]} ({reason})")
    if change.excess:
        effects.append(f"not compared: the page exceeds the limit of {change.excess}")
    if not effects:
        effects.append("this edit alone changes no grade")
    return "; ".join(effects) + "."


def label(field: str) -> str:
    """Return the display name of a verdict field."""
    return _LABELS.get(field, field.replace("_", " "))


def _claims(flagged: Mapping[str, Sequence[FlaggedClaim]], excess: str) -> Iterator[str]:
    if excess:
        yield f"No claim was checked: the revision exceeds the limit of {excess}."
    elif flagged:
        yield "Your original does not support these claims. Correct or remove what is not true:"
        rows = []
        for line, claims in flagged.items():
            rows.append(f"- {_text(line)}")
            rows += (f"  - {one.kind}, edit {one.edit}: {_text(one.short)}" for one in claims)
        yield "\n".join(rows)
    else:
        yield "No claim without support was found."
    yield BY_RULE


def _verdict(revision: Revision) -> Iterator[str]:
    if verdict := revision.session.verdict:
        rows = ["| | | |", "|---|---|---|"]
        for field in revision.session.verdict_weights:
            value = getattr(verdict, field)
            grade = _GRADES[value] if field != "hallucination" else _SUPPORT[value]
            reason = _text(verdict.reasons.get(field, ""))
            rows.append(f"| {label(field)} | {grade} | {reason} |")
        yield f"The judge `{revision.judge}` compared the revision with your original:"
        yield "\n".join(rows)
    else:
        yield f"The judge gave no verdict: {_text(revision.no_verdict)}"


def _cut(text: str) -> str:
    if len(text) <= LONG_THOUGHT:
        return text
    return f"{text[:LONG_THOUGHT]} [... {len(text) - LONG_THOUGHT} more characters; see --json]"


def _text(text: str) -> str:
    """Return a text as one line with escaped markup."""
    return _MARKUP.sub(r"\\\1", visible(" ".join(text.split())))


def _quoted(text: str) -> str:
    plain = _BLOCK.sub(r"\\\1", _MARKUP.sub(r"\\\1", visible(text)))
    return "\n".join(f"> {line.strip()}".rstrip() for line in plain.split("\n"))


def _fenced(diff: str) -> str:
    longest = max(map(len, re.findall(r"`+", diff)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}diff\n{visible(diff)}\n{fence}"


def as_json(revision: Revision, notes: list[str]) -> dict[str, Any]:
    """Return all results of a revision as JSON values; `report` shows only some of the results."""
    session, changed = revision.session, revision.changed
    return {
        "changed": changed,
        "warnings": revision.warnings if changed else [],
        "notes": notes,
        "edits": [
            {**asdict(change), "claims": [claim._asdict() for claim in change.claims]}
            for change in revision.changes
        ],
        "claims": [claim._asdict() for claim in revision.claims],
        "diff": revision.diff,
        "original": session.task.resume,
        "fits": revision.fits,
        "lines": revision.lines,
        "text": session.text,
        "submitted": session.state.submitted,
        "judge": revision.judge,
        "no_verdict": revision.no_verdict,
        "weakness": session.task.weakness,
        "score": session.score if session.done and not session.needs_verdict else None,
        "verdict": session.verdict and asdict(session.verdict),
        "episode": session.record(),
    }
