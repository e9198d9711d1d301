r"""A second editing domain: release notes, with tasks, tools and a judge of their own.

The agent reads the changes of a release and a draft of its notes. Some entries of the draft are in
the wrong section, are internal, or are duplicates. The agent drops and moves entries, and submits.
docs/domains.md explains this file.

    python examples/release_notes.py  # teach the nano policy the tools; save runs/notes-start
    python learners/aipo.py --env examples.release_notes:ReleaseNotes-v0 --name notes \
        --model runs/notes-start/model

An earlier version of the second command, with `--credit episode` and another warm start,
printed these means over 16 episodes on each of 20 held-out releases, before and after 20 steps:

    mean                           1.79    3.68
    from tool calls                1.28    2.25
    from content                  -0.49    0.43
    coverage                      -0.60    0.86
    placement                     -0.20   -0.54
    noise                          0.30    0.11
    submitted                       54%     99%
    edits that failed               39%     35%

In 20 steps, the policy learned to submit and to drop fewer needed entries. But it moved entries at
random, so placement and noise got worse: the policy did not learn to correct drafts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random

import gymnasium as gym

from resume_gym import EditSession, FailedCall, Rules, ToolCall, tool_call
from resume_gym.env import EditEnv
from resume_gym.episode.document import Edit, page, rewrite
from resume_gym.episode.editing import Ledger, Shown
from resume_gym.episode.tools import Toolbox, schema
from resume_gym.support.command_line import parse_nothing

SECTIONS = ("Breaking", "Added", "Fixed")
WEAKNESSES = ("misplaced", "internal", "duplicate")
_PARTS = ["the importer", "the report", "the search", "the login page", "the export"]
_WORDS = {
    "Breaking": ["Removed the old API of", "Renamed the options of", "Changed the defaults of"],
    "Added": ["Added a dark theme to", "Added keyboard shortcuts to", "Added undo to"],
    "Fixed": ["Fixed a crash in", "Fixed wrong dates in", "Fixed slow loading of"],
    "internal": ["Refactored tests of", "Updated the build of", "Raised lint rules in"],
}
SIZES = {"train": 160, "eval": 40}
RULES = Rules(max_turns=6, page_lines=15, page_width=80)


@dataclass(frozen=True)
class Release:
    """Task: revise the draft of release notes, given the list of changes.

    Attributes:
        task_id: unique id of the task.
        weakness: kind of fault that the draft has.
        changes: correct section of each change, by text; "internal" if it belongs in no section.
        draft: draft of the release notes in Markdown.
    """

    task_id: str
    weakness: str
    changes: Mapping[str, str]
    draft: str


def entries(notes: str) -> Iterator[tuple[str, str]]:
    """Yield the section and the text of each entry of the notes."""
    section = ""
    for line in notes.splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif line.startswith("- "):
            yield section, line.removeprefix("- ")


def compose(placed: Sequence[tuple[str, str]]) -> str:
    """Return the notes in Markdown, with each entry under its section."""
    lines = []
    for section in SECTIONS:
        lines += [f"## {section}", *(f"- {text}" for where, text in placed if where == section)]
    return "\n".join(lines) + "\n"


def make_release(split: str, number: int) -> Release:
    """Generate a task; equal arguments give equal tasks."""
    rng = Random(f"{split}:{number}")
    weakness = WEAKNESSES[number % len(WEAKNESSES)]
    kinds = [*SECTIONS * 2, *["internal"] * 2]
    changes = {
        f"{rng.choice(_WORDS[kind])} {part} (#{number})": kind
        for kind, part, number in zip(
            kinds, rng.choices(_PARTS, k=len(kinds)), rng.sample(range(100, 1000), len(kinds)),
            strict=True,
        )
    }  # fmt: skip
    right = [(kind, text) for text, kind in changes.items() if kind != "internal"]
    if weakness == "misplaced":
        for index in rng.sample(range(len(right)), 2):
            section, text = right[index]
            right[index] = rng.choice([one for one in SECTIONS if one != section]), text
    elif weakness == "internal":
        noise = [text for text, kind in changes.items() if kind == "internal"]
        right += [(rng.choice(SECTIONS), text) for text in noise]
    else:
        right += rng.sample(right, 2)
    rng.shuffle(right)
    return Release(f"{split}-{number}", weakness, changes, compose(right))


@dataclass(frozen=True)
class Verdict:
    """Verdict on edited notes, compared with the draft.

    Attributes:
        coverage: -1 if an entry that users need is missing, else 1.
        placement: -1, 0 or 1: more, as many or fewer misplaced entries than in the draft.
        noise: -1, 0 or 1: more, as many or fewer internal and duplicate entries than in the draft.
    """

    coverage: int
    placement: int
    noise: int


class Editor:
    """Judge that knows the right section of each change."""

    name = "editor"

    def judge(self, task: Release, revised: str) -> Verdict:
        """Compare edited notes with the draft."""
        wanted = {text for text, kind in task.changes.items() if kind != "internal"}
        missing = wanted - {text for _, text in entries(revised)}
        before, after = self._faults(task, task.draft), self._faults(task, revised)
        better = [(was > now) - (was < now) for was, now in zip(before, after, strict=True)]
        return Verdict(-1 if missing else 1, *better)

    def _faults(self, task: Release, notes: str) -> tuple[int, int]:
        placed = list(entries(notes))
        kinds = [(section, task.changes[text]) for section, text in placed]
        wrong = sum(kind not in (section, "internal") for section, kind in kinds)
        noise = sum(kind == "internal" for _, kind in kinds) + len(placed) - len(set(placed))
        return wrong, noise


_ENTRY = {"type": "string", "description": "text that one entry alone holds"}
_SECTION = {"type": "string", "description": ", ".join(SECTIONS)}
TOOLBOX = Toolbox(
    schema("drop", "Remove an entry; of two that are equal, one.", {"entry": _ENTRY}, ["entry"]),
    schema(
        "move",
        "Move an entry to another section.",
        {"entry": _ENTRY, "section": _SECTION},
        ["entry", "section"],
    ),
    schema("review", "Show the notes.", {}, []),
    schema("submit", "Hand in the notes.", {}, []),
)


class NotesSession(EditSession[Release, Verdict]):
    """Episode of an agent on the notes of one release."""

    __slots__ = ()

    noun = "notes"
    system_prompt = (
        "You edit release notes. Each turn, make one tool call. Review, drop what is internal or "
        "stands twice, move what is in the wrong section, then submit."
    )
    toolbox = TOOLBOX
    editors = frozenset({"drop", "move"})
    verdict_type = Verdict
    verdict_weights: Mapping[str, float] = {"coverage": 1.0, "placement": 1.0, "noise": 1.0}

    @property
    def original(self) -> str:
        """The draft of the release notes."""
        return self.task.draft

    @property
    def brief(self) -> str:
        """The changes of the release, and the draft of the notes."""
        changes = "\n".join(f"{kind}: {text}" for text, kind in self.task.changes.items())
        return f"# Changes\n{changes}\n\n# Notes\n{self.original.rstrip()}"

    def act(self, call: ToolCall) -> Edit | Shown | FailedCall:
        """Drop or move an entry, or show the notes."""
        notes, rules = self.state.document, self.rules
        if call.name == "review":
            return Shown(page(notes, rules.page_lines, rules.page_width))
        placed = list(entries(notes.text))
        hits = [one for one in placed if call.arguments["entry"] in one[1]]
        if len(set(hits)) != 1:
            error = "ambiguous" if hits else "not_found"
            return FailedCall(error, f"{len(set(hits))} entries hold `entry`", call.name)
        placed.remove(hits[0])
        if call.name == "move":
            section = call.arguments["section"]
            if section not in SECTIONS:
                told = f"`section` must be one of {', '.join(SECTIONS)}"
                return FailedCall("bad_arguments", told, call.name)
            placed.append((section, hits[0][1]))
        return rewrite(notes, compose(placed), rules.page_width)

    def unchanged(self) -> Ledger:
        """Return the reward terms for a draft that was not changed."""
        field = "placement" if self.task.weakness == "misplaced" else "noise"
        return {"coverage": -1.0, field: -1.0}


class ReleaseNotesEnv(EditEnv):
    """Edit the notes of a release, on 160 generated training tasks or 40 held-out tasks."""

    session_type = NotesSession

    def __init__(
        self,
        tasks: str = "made",
        split: str | None = "train",
        judge: str | Mapping[str, object] | None = f"{__name__}:Editor",
        render_mode: str | None = None,
    ) -> None:
        super().__init__(RULES, tasks, split, judge, render_mode)

    @staticmethod
    def load_tasks(source: str, split: str | None) -> Sequence[Release]:
        """Return the tasks of a split, or all tasks if `split` is None; `source` must be "made"."""
        if source != "made":
            raise ValueError(f"tasks: expected 'made', got {source!r}")
        splits = list(SIZES) if split is None else [split]
        if not set(splits) <= SIZES.keys():
            raise ValueError(f"split: expected {' or '.join(SIZES)}, got {split!r}")
        return [make_release(one, number) for one in splits for number in range(SIZES[one])]


gym.register(id="ReleaseNotes-v0", entry_point=f"{__name__}:ReleaseNotesEnv")


def hasty(session: NotesSession, rng: Random) -> str:
    """Return the next action of a careless editor, who often forgets to submit."""
    turn, last = session.state.turns, session.rules.max_turns - 1
    if turn == 0 and rng.random() < 0.9:
        return tool_call("review")
    if rng.random() < (0.5 if turn == last else 0.05):
        return tool_call("submit")
    placed = list(entries(session.text))
    kinds = session.task.changes
    faults = [
        (section, text) for section, text in placed
        if kinds[text] != section or placed.count((section, text)) > 1
    ]  # fmt: skip
    _, text = rng.choice(faults if faults and rng.random() < 0.5 else placed)
    # an entry ends with a unique number in parentheses
    number = text[text.rindex("(") :]
    if rng.random() < 0.5:
        return tool_call("drop", entry=number)
    return tool_call("move", entry=number, section=rng.choice(SECTIONS))


def main() -> None:
    """Teach the nano policy the tools of `TOOLBOX` by imitation, before reinforcement learning."""
    from learners.build import make_trainer
    from learners.config import Config
    from learners.demonstrations import demonstrations
    from learners.losses import likelihood
    from learners.rollouts.tokens import ChatTokens
    from learners.training.cpu import prepare_cpu
    from learners.training.models import load_tokenizer
    from learners.training.rows import pack

    prepare_cpu()
    folder, steps = Path("runs/notes-start"), 200
    trainer = make_trainer(Config(model="nano", temperature=1.0), folder / "checkpoints")
    chat = ChatTokens(load_tokenizer("nano"), TOOLBOX.schemas)
    releases = (make_release("imitation", number) for number in range(100_000))
    sessions = (NotesSession(release, RULES) for release in releases)
    groups = demonstrations(chat, sessions, hasty, 8, 0)
    for step in range(steps):
        samples = [sample for group in islice(groups, 2) for sample in group]
        trained = trainer.step_rows(pack(samples, 8192), likelihood, 1e-3 * (1 - step / steps))
        if step % 25 == 0:
            print(f"{step}/{steps}: loss {trained['loss']:.2f}", flush=True)
    trainer.export(folder / "model", replace=True)
    print(f"the warm start is in {folder / 'model'}")


if __name__ == "__main__":
    parse_nothing(__doc__)
    main()
