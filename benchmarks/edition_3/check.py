"""Check the texts in `roles/`, from which the next edition of the tasks will be generated.

    python benchmarks/edition_3/check.py               # all roles
    python benchmarks/edition_3/check.py nurse teacher

The script prints each broken rule of `README.md`, and one line of counts per role. The exit status
is 1 if a rule is broken.
"""

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

ROLES = Path(__file__).parent / "roles"
KINDS = ("vague", "emphasis", "verbs")
LEAST = {"must": 9, "must_lead": 3, "nice": 5, "distractors": 6, "padding": 12}
DEEDS = {"train": 32, "eval": 26}

_MARK = re.compile(r"<([^<>|]*)\|([^<>|]*)>")
_RANGE = re.compile(r"\{(\w+):\d+-\d+(?:/\d+)?\}")
_SLOT = re.compile(r"\{(\w+)\}")
_METRIC = re.compile(r" ?\[.*?\]")
_WORDS = {"Who", "product", "flow", "users", "records", "partners"}
_ARTICLE = re.compile(r"\b[Aa]n? \[?\$?\{[a-z]\b")
_OBJECT = re.compile(r"\b(?:from|to|by|with|of|for) \{Who\}")
_PART = re.compile(
    r"(?:I |Was )?(?:help|assist|participat|contribut|support|involved|took part)", re.I
)
_PARODY = re.compile(
    r"as it were|so to sa?y|so to speak|among other things|in the course of which|by and by"
    r"|over coffee|and the like|and suchlike|and so forth|pastr|\bchoir|lent a hand|gave a hand"
    r"|had the job of|held responsibility|entrusted|took on the task|dwelt|was occupied|by heart",
    re.I,
)


def main(names: list[str]) -> int:
    """Check the named roles, or all; return the exit status."""
    paths = [ROLES / f"{name}.toml" for name in names] or sorted(ROLES.glob("*.toml"))
    broken = 0
    seen: set[str] = set()
    for path in paths:
        role = tomllib.loads(path.read_text(encoding="utf-8"))
        faults = [*check_texts(role), *check_deeds(role["deeds"], seen)]
        broken += len(faults)
        print(*(f"{path.stem}: {fault}" for fault in faults), sep="\n", end="\n" * bool(faults))
        print(f"{path.stem}: {counts(role['deeds'])}")
    return int(broken > 0)


def check_texts(role: dict[str, Any]) -> Iterator[str]:
    """Yield the faults of titles, postings, summaries and padding."""
    earlier: set[str] = set()
    if len(role["titles"]) != 6:
        yield f"titles: expected 6, got {len(role['titles'])}"
    for split in DEEDS:
        table = role[split]
        texts = [text for name in LEAST for text in table[name]]
        for name, least in LEAST.items():
            if len(table[name]) < least:
                yield f"{split}.{name}: expected {least}, got {len(table[name])}"
        for name, least in (("summary", 4), ("duties", 5)):
            for band in ("early", "senior", "lead"):
                texts += table[name][band]
                if len(table[name][band]) < least:
                    yield f"{split}.{name}.{band}: expected {least}, got {len(table[name][band])}"
        for text in texts:
            if _PARODY.search(text):
                yield f"nobody writes this: {text}"
        yield from (f"{split}: repeated: {one}" for one, n in Counter(texts).items() if n > 1)
        yield from (f"in both splits: {one}" for one in texts if split == "eval" and one in earlier)
        earlier = set(texts)


def check_deeds(deeds: list[dict[str, Any]], seen: set[str]) -> Iterator[str]:
    """Yield the faults of deeds; add their lines to `seen`."""
    number = Counter(deed["split"] for deed in deeds)
    verbs = Counter((deed["split"], deed["told"].split()[0]) for deed in deeds)
    for split, least in DEEDS.items():
        if number[split] < least:
            yield f"deeds: expected {least} of {split}, got {number[split]}"
    yield from (f"{verb!r} opens {n} deeds of {s}" for (s, verb), n in verbs.items() if n > 3)
    for deed in deeds:
        for fault in check_deed(deed, seen):
            yield f"{deed['split']}, {deed['told'][:50]!r}: {fault}"


def check_deed(deed: dict[str, Any], seen: set[str]) -> Iterator[str]:
    """Yield the faults of one deed; add its lines to `seen`."""
    told = deed["told"]
    drawn = set(_RANGE.findall(told))
    needed = ("gerund", "record", "topic", *KINDS, *(["figure"] if "[" in told else []))
    yield from (f"lacks {name}" for name in needed if not deed.get(name))
    if not 5 <= len(told.split()) <= 24 or told.endswith(".") or told.count("[") > 1:
        yield "expected 5 to 24 words, at most one metric and no final period"
    if not deed["gerund"].endswith("ing"):
        yield f"gerund: {deed['gerund']!r}"
    record = deed["record"]
    if "{Who}" not in record or _OBJECT.search(record):
        yield f"record: expected {{Who}} as the subject of a clause: {record}"
    if set(_SLOT.findall(record)) - _WORDS != drawn:
        yield f"record: expected the figures of the deed: {record}"
    yield from (fault for kind in KINDS for fault in check_forms(deed, kind, seen))
    for line in [told, record, *(form for kind in KINDS for form in deed[kind])]:
        if _ARTICLE.search(line):
            yield f"an article before a number: {line}"
        if set(_SLOT.findall(line)) - _WORDS - drawn:
            yield f"a figure that the deed does not draw: {line}"
    if told in seen:
        yield "repeated"
    seen.add(told)


def check_forms(deed: dict[str, Any], kind: str, seen: set[str]) -> Iterator[str]:
    """Yield the faults of the weak forms of one kind; add them to `seen`."""
    whole = _RANGE.sub(r"{\1}", deed["told"])
    allowed = {whole, _METRIC.sub("", whole)} if kind == "vague" else {whole}
    for form in deed[kind]:
        weak, repaired = (" ".join(_MARK.sub(rf"\{side}", form).split()) for side in (1, 2))
        if weak == repaired:  # without marks: the repair is `told`, in another order
            if kind != "emphasis":
                yield f"{kind}: expected a mark: {form}"
        elif _RANGE.sub(r"{\1}", repaired) not in allowed:
            yield f"{kind}: the repair is {repaired!r}"
        if _PARODY.search(weak):
            yield f"nobody writes this: {weak}"
        if kind == "verbs" and _PART.match(weak):
            yield f"says that the candidate only had a part: {weak}"
        if len(weak) > 200 or weak in seen:
            yield f"longer than 200 characters, or repeated: {weak}"
        seen.add(weak)


def counts(deeds: list[dict[str, Any]]) -> str:
    """Return the numbers of deeds and forms, and the shares of metrics, on one line."""
    number = Counter(deed["split"] for deed in deeds)
    words = median(len(deed["told"].split()) for deed in deeds)
    measured = sum("[" in deed["told"] for deed in deeds) / len(deeds)
    forms = {kind: sum(len(deed[kind]) for deed in deeds) for kind in KINDS}
    moved = sum("<" not in form for deed in deeds for form in deed["emphasis"])
    told = ", ".join(f"{n} {kind}" for kind, n in forms.items())
    return (
        f"{number['train']} + {number['eval']} deeds, median {words:g} words, {measured:.0%} with "
        f"a metric; weak forms: {told}, {moved} of them in another order"
    )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
