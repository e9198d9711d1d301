"""One episode as a pure state machine: no Gymnasium, no I/O, no judge.

A `Session` holds a task, rules and an immutable `State`; a step makes the next state. Snapshots
are references, so forks are free, and a finished session waits for its verdict as long as it
must.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Self

from resume_gym import document, rewards
from resume_gym.document import Document, Edit, Match
from resume_gym.prompts import SYSTEM_PROMPT, layout_line, meta_line, task_prompt
from resume_gym.rewards import Verdict
from resume_gym.tasks import Task, TaskError
from resume_gym.tools import TOOLS, Malformed, ToolCall, ToolError, parse

Ledger = Mapping[str, float]
"""Named reward terms (see `rewards.TERMS`); their sum is the reward, exactly."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The limits of an episode.

    Attributes:
        max_turns: calls the agent may make, at least 3.
        page_lines: lines of the page.
        page_width: characters of a page line.
        match: how `old` is searched; see `document.find`.
        max_chars: size limit of an action and of the resume, in characters.

    Raises:
        ValueError: a limit is out of range.
    """

    max_turns: int = 10
    page_lines: int = 55
    page_width: int = 165
    match: Match = "exact"
    max_chars: int = 262_144

    def __post_init__(self) -> None:
        least = {"max_turns": 3, "page_lines": 1, "page_width": 1, "max_chars": 1}
        for name, limit in least.items():
            value = getattr(self, name)
            if type(value) is not int or value < limit:
                raise ValueError(f"{name}: expected an integer of at least {limit}, got {value!r}")
        if self.match not in ("exact", "fuzzy"):
            raise ValueError(f"match: expected 'exact' or 'fuzzy', got {self.match!r}")


_DEFAULT_RULES = Rules()


_INFO: dict[str, Any] = {
    "task_id": "",
    "resume": "",
    "turns_left": 0,
    "edits": 0,
    "failed_edits": 0,
    "lines": 0,
    "longest_line": 0,
    "submitted": False,
    "error": "none",
    "episode_reward": 0.0,
    "graded": False,
    "score": 0.0,
    **{f"reward_{name}": 0.0 for name in rewards.TERMS},
    **{f"verdict_{name}": 0.0 for name in rewards.VERDICT_FIELDS},
}
_REWARD_KEYS = {name: f"reward_{name}" for name in rewards.TERMS}


class Step(NamedTuple):
    """What a step answers.

    `reward` is the sum of `ledger`. When `done` and the session's `needs_verdict`, the content
    terms are not in it yet; `Session.grade` gives them.
    """

    observation: str
    reward: float
    done: bool
    error: ToolError
    ledger: Ledger


class State(NamedTuple):
    """Everything that changes in an episode; immutable."""

    document: Document
    turns: int = 0
    edits: int = 0
    failed_edits: int = 0
    reviewed: bool = False
    submitted: bool = False
    done: bool = False
    reward: float = 0.0
    transcript: tuple[tuple[str, Step], ...] = ()
    verdict: Verdict | None = None


class Session:
    """An agent's episode on one task.

    >>> session = Session(task)
    >>> session.step(tool_call("review")).reward
    1.0
    """

    __slots__ = ("rules", "state", "task")

    def __init__(self, task: Task, rules: Rules | None = None) -> None:
        """Start an episode.

        Raises:
            TaskError: the job or the resume is larger than the rules allow.
        """
        self.task = task
        self.rules = rules or _DEFAULT_RULES
        for name, text in (("job", task.job), ("resume", task.resume)):
            if len(text) > self.rules.max_chars:
                limit = f"{len(text)} characters, the limit is {self.rules.max_chars}"
                raise TaskError(f"{task.task_id}: the {name} has {limit}")
        self.state = State(_measure(task.resume, self.rules.page_width))

    @property
    def system_prompt(self) -> str:
        """The system message; the schemas of `tools` go beside it."""
        return SYSTEM_PROMPT

    @property
    def tools(self) -> Sequence[Mapping[str, Any]]:
        """The tools' schemas in OpenAI's format."""
        return TOOLS

    @property
    def prompt(self) -> str:
        """The first observation: job, resume, layout, budget."""
        return _prompt(self.task.job, self.task.resume, self.rules)

    @property
    def done(self) -> bool:
        """Whether the agent has submitted or has no turn left."""
        return self.state.done

    @property
    def resume(self) -> str:
        """The resume as it stands."""
        return self.state.document.text

    @property
    def needs_verdict(self) -> bool:
        """Whether the episode is over, was worth judging, and has no verdict yet."""
        state = self.state
        return state.done and not state.verdict and not self._unedited(state.document, state.edits)

    @property
    def ledger(self) -> dict[str, float]:
        """All terms of the episode so far, the verdict's included; their sum is its reward."""
        total = dict.fromkeys(rewards.TERMS, 0.0)
        for _, step in self.state.transcript:
            for name, value in step.ledger.items():
                total[name] += value
        if self.state.verdict:
            total.update(rewards.verdict_ledger(self.state.verdict))
        return total

    @property
    def reward(self) -> float:
        """The episode's reward so far."""
        return self.state.reward

    @property
    def score(self) -> float:
        """The episode's reward on a scale from 0 to 100."""
        return rewards.score(self.state.reward, self.rules.max_turns)

    def info(self) -> dict[str, Any]:
        """The state and the last step as data, with the same keys at every step.

        `reward_*` are the last step's terms, the verdict's included once there is one; they are
        floats and sum to its reward. `verdict_*` are -1, 0 or 1, and 0 before.
        """
        doc, turns, edits, failed, _, submitted, done, reward, transcript, verdict = self.state
        info = _INFO.copy()
        info["task_id"] = self.task.task_id
        info["resume"], info["lines"], info["longest_line"] = doc
        info["turns_left"] = self.rules.max_turns - turns
        info["edits"] = edits
        info["failed_edits"] = failed
        info["submitted"] = submitted
        info["episode_reward"] = reward
        if transcript:
            _, _, _, info["error"], ledger = transcript[-1][1]
            for name, value in ledger.items():
                info[_REWARD_KEYS[name]] = value
            if done:
                self._add_verdict(info, ledger, verdict)
        return info

    def _add_verdict(self, info: dict[str, Any], ledger: Ledger, verdict: Verdict | None) -> None:
        # an episode that changed nothing is graded by the tables
        content = rewards.verdict_ledger(verdict) if verdict else ledger
        if "hallucination" in content:
            info["graded"] = True
            info["score"] = self.score
            for name, weight in rewards.VERDICT_WEIGHTS.items():
                info[_REWARD_KEYS[name]] = content[name]
                info[f"verdict_{name}"] = content[name] / weight

    def step(self, text: str) -> Step:
        """Take one action. Bad syntax costs a turn; no string raises.

        Raises:
            RuntimeError: the episode is over.
        """
        state, rules = self.state, self.rules
        doc, turns, edits, failed, reviewed, submitted, done, reward, transcript, _ = state
        if done:
            raise RuntimeError("the episode is over: start a new session")
        outcome: ToolCall | Malformed | Edit = self._parse(text)
        if isinstance(outcome, ToolCall) and outcome.name == "str_replace":
            outcome = self._replace(outcome)
        error: ToolError = "none"
        ledger: dict[str, float] = {}
        if isinstance(outcome, Edit):
            doc = outcome.document
            edits += 1
            reply = f"{outcome.diff}\n{_layout(doc, rules)}"
            ledger["edit"] = rewards.EDIT
        elif isinstance(outcome, Malformed):
            error = outcome.error
            reply = f"error ({error}): {outcome.reason}"
            is_edit = outcome.name == "str_replace"
            failed += is_edit
            ledger["failed_edit" if is_edit else "malformed"] = rewards.FAILURE
        elif outcome.name == "review":
            page = document.page(doc, rules.page_lines, rules.page_width)
            reply = f"{page}\n{_layout(doc, rules)}"
            if not reviewed:
                ledger["review"] = rewards.FIRST_REVIEW
            reviewed = True
        else:
            reply = "submitted"
            ledger["submit"] = rewards.SUBMIT
            submitted = True
        turns += 1
        done = submitted or turns == rules.max_turns
        if done:
            self._close(doc, edits, submitted, ledger)
        reply = f"{reply}\n{meta_line(rules.max_turns - turns, rules.max_turns, edits)}"
        step = Step(reply, sum(ledger.values(), 0.0), done, error, ledger)
        reward += step.reward
        transcript = (*transcript, (text, step))
        self.state = State(doc, turns, edits, failed, reviewed, submitted, done, reward, transcript)
        return step

    def _parse(self, text: str) -> ToolCall | Malformed:
        if len(text) > self.rules.max_chars:
            limit = f"{len(text)} characters, the limit is {self.rules.max_chars}"
            return Malformed("too_large", f"the action has {limit}")
        return parse(text)

    def _replace(self, call: ToolCall) -> Edit | Malformed:
        doc, rules = self.state.document, self.rules
        name, old, new, occurrences = call
        old, new = document.unix_lines(old), document.unix_lines(new)
        if rules.match == "fuzzy":
            old, new = document.without_margin(doc.text, old, new)
        spans = document.find(doc.text, old, rules.match)
        if len(spans) < occurrences:
            found = (
                f"found {len(spans)} of {occurrences}" if spans else "`old` is not in the resume"
            )
            return Malformed("not_found", found, name)
        if len(spans) > occurrences:
            more = f"`old` occurs {len(spans)} times, expected {occurrences}; make it longer"
            return Malformed("ambiguous", more, name)
        size = len(doc.text) + sum([len(new) - stop + start for start, stop in spans])
        if size > rules.max_chars:
            limit = f"{size} characters, the limit is {rules.max_chars}"
            return Malformed("too_large", f"the resume would have {limit}", name)
        edit = document.replace(doc, spans, new, rules.page_width)
        if edit.document.text == doc.text:
            return Malformed("unchanged", "the edit changes nothing", name)
        return edit

    def _unedited(self, doc: Document, edits: int) -> bool:
        return edits == 0 or doc.text == self.task.resume

    def _close(self, doc: Document, edits: int, submitted: bool, ledger: dict[str, float]) -> None:
        """Add the terms of an episode's end that need no judge."""
        if not submitted:
            ledger["no_submit"] = rewards.NO_SUBMIT
        fits = doc.lines <= self.rules.page_lines
        ledger["layout"] = rewards.LAYOUT if fits else -rewards.LAYOUT
        if self._unedited(doc, edits):
            ledger.update(rewards.unedited_ledger(self.task.weakness))

    def grade(self, verdict: Verdict) -> Ledger:
        """Take a judge's verdict on the final document; return its terms.

        A later verdict replaces an earlier one.

        Raises:
            RuntimeError: the episode still runs, or changed nothing and needs no verdict.
        """
        state = self.state
        if not state.done:
            raise RuntimeError("the episode still runs: only a final document is graded")
        if self._unedited(state.document, state.edits):
            raise RuntimeError("nothing was edited: the tables grade this episode, not a judge")
        ledger = rewards.verdict_ledger(verdict)
        earlier = sum(rewards.verdict_ledger(state.verdict).values()) if state.verdict else 0.0
        reward = state.reward - earlier + sum(ledger.values())
        self.state = state._replace(reward=reward, verdict=verdict)
        return ledger

    def snapshot(self) -> State:
        """The state; immutable, so a reference is a snapshot."""
        return self.state

    def restore(self, state: State) -> None:
        """Go back, or forward, to a snapshot of this task."""
        self.state = state

    def fork(self) -> Self:
        """An independent session in the same state."""
        twin = object.__new__(type(self))
        twin.task, twin.rules, twin.state = self.task, self.rules, self.state
        return twin

    def record(self) -> dict[str, Any]:
        """The episode as JSON values: enough to replay it and to grade it again."""
        verdict = self.state.verdict
        return {
            "task_id": self.task.task_id,
            "rules": asdict(self.rules),
            "actions": [text for text, _ in self.state.transcript],
            "observations": [step.observation for _, step in self.state.transcript],
            "ledger": self.ledger,
            "reward": self.reward,
            "resume": self.resume,
            "verdict": asdict(verdict) if verdict else None,
        }

    @classmethod
    def replay(cls, task: Task, record: Mapping[str, Any]) -> Self:
        """Play a record again.

        Raises:
            ValueError: the record is of another task, or came out differently.
        """
        if record["task_id"] != task.task_id:
            raise ValueError(f"expected a record of {task.task_id}, got {record['task_id']}")
        session = cls(task, Rules(**record["rules"]))
        for text in record["actions"]:
            session.step(text)
        if record["verdict"]:
            session.grade(Verdict(**record["verdict"]))
        for name in ("resume", "reward"):
            if getattr(session, name) != record[name]:
                raise ValueError(f"{task.task_id}: the replay ends with another {name}")
        return session


@lru_cache(maxsize=4096)
def _measure(text: str, width: int) -> Document:
    return document.make_document(text, width)


def _layout(doc: Document, rules: Rules) -> str:
    return layout_line(doc.lines, rules.page_lines, doc.longest_line)


@lru_cache(maxsize=4096)
def _prompt(job: str, resume: str, rules: Rules) -> str:
    doc = _measure(resume, rules.page_width)
    meta = meta_line(rules.max_turns, rules.max_turns, 0)
    return task_prompt(job, resume, _layout(doc, rules), meta)
