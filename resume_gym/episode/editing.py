"""Editing episodes as a pure state machine, without Gymnasium, I/O or a judge.

`EditSession` implements what all editing domains share: the turn budget, the page limit, rewards of
tool calls, grading, copies and records. A subclass adds the task type, the tools and the weights of
a judge's grades, as `session.Session` does for resumes (see docs/domains.md).
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Protocol, Self, TypeAlias, TypeVar

from resume_gym.episode import document, rewards
from resume_gym.episode.document import Document, Edit, Match
from resume_gym.episode.tools import FailedCall, Toolbox, ToolCall, ToolError, paired

MAX_OBSERVATION = 1_048_576
"""Maximum length of an observation in characters; the middle of a longer one is left out."""
Ledger = Mapping[str, float]
"""Reward terms by name (see `EditSession.terms`); the sum of the terms is exactly the reward."""


class EditTask(Protocol):
    """The fields that tasks of every domain have.

    Attributes:
        task_id: identifier of the task, unique in its source.
        weakness: category of the task; evaluations report the mean reward of each category.
    """

    @property
    def task_id(self) -> str: ...  # noqa: D102
    @property
    def weakness(self) -> str: ...  # noqa: D102


TaskT = TypeVar("TaskT", bound=EditTask)
VerdictT = TypeVar("VerdictT")


@dataclass(frozen=True, slots=True)
class Rules:
    """Limits and reward settings of an episode.

    Attributes:
        max_turns: number of actions that the agent may take, at least 3.
        page_lines: page height in lines.
        page_width: page width in characters.
        match: search mode for the text to replace; see `document.find`.
        max_chars: maximum length of an action and of the document in characters.
        layout_reward: "binary" gives +1 at the end if the document fits the page, else -1.
            "continuous" rewards each edit by the resulting change of `layout_potential`, so that
            the sum over an episode depends only on the first and the final document.
        layout_amplitude: with "continuous", the reward for each removed line beyond the page; a
            multiple of 1/64. Lines beyond the second page do not count.
        feedback_every: the reply to every `feedback_every`-th edit has feedback; 0: no feedback.

    Raises:
        ValueError: An attribute has an invalid value.
    """

    max_turns: int = 10
    page_lines: int = 55
    page_width: int = 165
    match: Match = "exact"
    max_chars: int = 262_144
    layout_reward: Literal["binary", "continuous"] = "binary"
    layout_amplitude: float = 0.25
    feedback_every: int = 0

    def __post_init__(self) -> None:
        least = {"max_turns": 3, "page_lines": 1, "page_width": 1, "max_chars": 1}
        least["feedback_every"] = 0
        for name, limit in least.items():
            value = getattr(self, name)
            if type(value) is not int or value < limit:  # isinstance would accept booleans
                raise ValueError(f"{name}: expected a whole number >= {limit}, got {value!r}")
        if self.match not in ("exact", "fuzzy"):
            raise ValueError(f"match: expected 'exact' or 'fuzzy', got {self.match!r}")
        if self.layout_reward not in ("binary", "continuous"):
            told = f"expected 'binary' or 'continuous', got {self.layout_reward!r}"
            raise ValueError(f"layout_reward: {told}")
        amplitude = self.layout_amplitude
        if type(amplitude) not in (int, float) or not 0 < amplitude <= 64 or amplitude * 64 % 1:
            told = f"expected a multiple of 1/64 from 1/64 to 64, got {amplitude!r}"
            raise ValueError(f"layout_amplitude: {told}")

    @property
    def endless(self) -> bool:
        """Whether the page is unlimited: each text that a session accepts fits on it."""
        return self.page_lines >= self.max_chars

    def layout_potential(self, doc: Document) -> float:
        """Return `-layout_amplitude * n` for n lines beyond the page (at most `page_lines`)."""
        beyond = min(max(0, doc.lines - self.page_lines), self.page_lines)
        return -self.layout_amplitude * beyond


_DEFAULT_RULES = Rules()


class Step(NamedTuple):
    """The result of one action.

    The `reward` of a step is the sum of its `ledger`. Both exclude the reward terms of a judge's
    verdict: `EditSession.grade` returns these terms.
    """

    observation: str
    reward: float
    done: bool
    error: ToolError
    ledger: Ledger


class State(NamedTuple):
    """The immutable state of an episode; each step replaces the session's state."""

    document: Document
    turns: int = 0
    edits: int = 0
    failed_edits: int = 0
    reviewed: bool = False
    submitted: bool = False
    done: bool = False
    reward: float = 0.0
    transcript: tuple[tuple[str, Step], ...] = ()
    verdict: Any = None


class Shown(NamedTuple):
    """A reply that shows a text; only the first reply with `paid=True` earns a reward."""

    text: str
    paid: bool = True


_COUNTS: dict[str, Any] = {
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
}


class EditSession(ABC, Generic[TaskT, VerdictT]):
    """One episode on one task of a domain.

    A subclass defines `original`, `brief`, `act` and `unchanged`, and sets the class attributes
    listed here. `verdict_limit` and `tool_rewards` have defaults; `terms` is computed.

    Attributes:
        noun: noun for the edited document, such as "resume"; also the document's key in `info`.
        system_prompt: text of the system message, without the schemas of `tools`.
        toolbox: tools, including `submit`, which ends the episode.
        editors: names of the editing tools, whose failures count as failed edits.
        verdict_type: dataclass of a judge's verdicts.
        verdict_weights: reward weight of each graded (numeric) field of a verdict. The property
            `weights` may add weights that apply to a single task.
        verdict_limit: largest absolute value of a graded field.
        tool_rewards: rewards of tool calls, with the keys of `rewards.TOOL_REWARDS`.
        terms: names of all reward terms.
    """

    __slots__ = ("rules", "state", "task")

    noun: ClassVar[str]
    system_prompt: ClassVar[str]
    toolbox: ClassVar[Toolbox]
    editors: ClassVar[frozenset[str]]
    verdict_type: ClassVar[type]
    verdict_weights: ClassVar[Mapping[str, float]]
    verdict_limit: ClassVar[int] = 1
    tool_rewards: ClassVar[Mapping[str, float]] = rewards.TOOL_REWARDS
    terms: ClassVar[tuple[str, ...]]
    _empty_info: ClassVar[Mapping[str, Any]]

    def __init_subclass__(cls) -> None:
        cls._check()
        cls.terms = (*rewards.TOOL_TERMS, "layout", *cls.verdict_weights)
        verdict = {f"verdict_{name}": 0.0 for name in cls.verdict_weights}
        terms = {f"reward_{name}": 0.0 for name in cls.terms}
        cls._empty_info = {"task_id": "", cls.noun: "", **_COUNTS, **terms, **verdict}

    @classmethod
    def _check(cls) -> None:
        """Validate the class attributes when the class is defined, not during an episode."""
        parts = EditSession.__annotations__.keys() - {"terms", "_empty_info"}
        if missing := sorted(name for name in parts if not hasattr(cls, name)):
            raise TypeError(f"{cls.__name__}: expected the attributes {', '.join(missing)}")
        names = {tool["function"]["name"] for tool in cls.toolbox.schemas}
        known = {one.name for one in fields(cls.verdict_type)}
        taken = {*rewards.TOOL_TERMS, "layout"}
        for wrong, told in (
            (cls.editors - names, "editors: expected names of tools in `toolbox`"),
            (cls.verdict_weights.keys() - known, "verdict_weights: expected fields of the verdict"),
            (cls.verdict_weights.keys() & taken, "verdict_weights: expected unused term names"),
            ({cls.noun} & {"task_id", *_COUNTS}, "noun: expected a name that `info` does not use"),
        ):
            if wrong:
                raise TypeError(f"{cls.__name__}: {told}; got {', '.join(sorted(wrong))}")
        for name, weight in cls.verdict_weights.items():
            # multiples of 0.25 have exact sums; 0 is excluded, since `info` divides by weights
            if weight <= 0 or weight % 0.25:
                told = f"expected a positive multiple of 0.25, got {weight}"
                raise TypeError(f"{cls.__name__}: verdict_weights: {name}: {told}")

    def __init__(self, task: TaskT, rules: Rules | None = None) -> None:
        """Start an episode.

        Raises:
            ValueError: The document is longer than the rules allow.
        """
        self.task = task
        self.rules = rules or _DEFAULT_RULES
        if len(self.original) > self.rules.max_chars:
            limit = f"{len(self.original)} characters, the limit is {self.rules.max_chars}"
            raise ValueError(f"{task.task_id}: the {self.noun} has {limit}")
        self.state = State(measure(self.original, self.rules.page_width))

    @property
    @abstractmethod
    def original(self) -> str:
        """The unedited document of the task."""

    @property
    @abstractmethod
    def brief(self) -> str:
        """The start of the prompt: texts such as a job description, and then the document."""

    @abstractmethod
    def act(self, call: ToolCall) -> Edit | Shown | FailedCall:
        """Return the result of a tool call other than `submit`, without changing the state."""

    @abstractmethod
    def unchanged(self) -> Ledger:
        """Return the reward terms for an unedited document, which no judge grades."""

    def feedback(self, text: str) -> str:
        """Return remarks on a draft, as one line; they must not reveal how a judge would grade."""
        return "none"

    @property
    def weights(self) -> Mapping[str, float]:
        """Reward weight of each graded verdict field, and of each term that only this task has."""
        return self.verdict_weights

    @classmethod
    def terms_of(cls, tasks: Sequence[TaskT]) -> tuple[str, ...]:
        """Return the names of all reward terms that episodes on these tasks can have."""
        return cls.terms

    @property
    def tools(self) -> Sequence[Mapping[str, Any]]:
        """The tool schemas in OpenAI's format."""
        return self.toolbox.schemas

    @property
    def prompt(self) -> str:
        """The first observation: `brief`, then the lines that `layout` and `meta_line` format."""
        rules = self.rules
        first = layout(measure(self.original, rules.page_width), rules)
        return f"{self.brief}\n\n{first}\n{meta_line(rules.max_turns, rules.max_turns, 0)}"

    @property
    def messages(self) -> list[dict[str, str]]:
        """The initial chat messages of the episode."""
        texts = {"system": self.system_prompt, "user": self.prompt}
        return [{"role": role, "content": text} for role, text in texts.items()]

    @property
    def done(self) -> bool:
        """Whether the agent has submitted or has no turns left."""
        return self.state.done

    @property
    def turns(self) -> int:
        """The number of actions taken in the episode."""
        return self.state.turns

    @property
    def text(self) -> str:
        """The current text of the document."""
        return self.state.document.text

    @property
    def verdict(self) -> VerdictT | None:
        """The judge's verdict on the final document; None before the grading."""
        return self.state.verdict  # type: ignore[no-any-return]

    @property
    def needs_verdict(self) -> bool:
        """Whether the episode is over and changed the document, but has no verdict yet."""
        state = self.state
        return state.done and not state.verdict and not self._unedited(state.document)

    @property
    def ledgers(self) -> list[dict[str, float]]:
        """The reward terms of each turn; the verdict's terms are added to the last turn."""
        turns = [dict(step.ledger) for _, step in self.state.transcript]
        if self.state.verdict:
            turns[-1].update(self._content(self.state.verdict))
        return turns

    @property
    def ledger(self) -> dict[str, float]:
        """The total of each reward term, including the verdict's; the totals sum to `reward`."""
        total = dict.fromkeys((*self.terms, *self.weights), 0.0)
        for turn in self.ledgers:
            for name, value in turn.items():
                total[name] += value
        return total

    @property
    def reward(self) -> float:
        """The reward of the episode so far."""
        return self.state.reward

    @property
    def score(self) -> float:
        """The reward so far, mapped linearly such that `scale` becomes (0, 100), and clipped."""
        least, greatest = self.scale
        return min(100.0, max(0.0, 100 * (self.state.reward - least) / (greatest - least)))

    @property
    def scale(self) -> tuple[float, float]:
        """The rewards that correspond to the scores 0 and 100."""
        return self.bounds

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the greatest reward of a graded episode."""
        weights = {name: self.verdict_limit * one for name, one in self.verdict_weights.items()}
        least, greatest = rewards.reward_bounds(self.rules.max_turns, weights, self.tool_rewards)
        worst, best = self.layout_bounds
        return least + rewards.LAYOUT + worst, greatest - rewards.LAYOUT + best

    @property
    def layout_bounds(self) -> tuple[float, float]:
        """The least and the greatest sum of the term "layout"."""
        rules = self.rules
        if rules.layout_reward == "binary":
            return -rewards.LAYOUT, rewards.LAYOUT
        start = rules.layout_potential(measure(self.original, rules.page_width))
        return -rules.layout_amplitude * rules.page_lines - start, 0.0 - start

    def info(self) -> dict[str, Any]:
        """Return the state and the last step as a dictionary with the same keys at every step.

        The keys `reward_*` hold the reward terms of the last step and of the verdict, and the keys
        `verdict_*` the verdict's grades. Terms and grades of the verdict are 0 until grading.
        """
        state = self.state
        info = dict(self._empty_info)
        if (weights := self.weights) is not self.verdict_weights:
            info |= {f"{kind}_{name}": 0.0 for name in weights for kind in ("reward", "verdict")}
        info["task_id"] = self.task.task_id
        info[self.noun], info["lines"], info["longest_line"] = state.document
        info["turns_left"] = self.rules.max_turns - state.turns
        info["edits"] = state.edits
        info["failed_edits"] = state.failed_edits
        info["submitted"] = state.submitted
        info["episode_reward"] = state.reward
        if state.transcript:
            last = state.transcript[-1][1]
            info["error"] = last.error
            for name, value in last.ledger.items():
                info[f"reward_{name}"] = value
            if state.done:
                self._add_verdict(info, last.ledger, state.verdict)
        return info

    def _add_verdict(
        self, info: dict[str, object], ledger: Ledger, verdict: VerdictT | None
    ) -> None:
        # an unedited document gets no verdict: the last ledger holds the terms from `unchanged`
        content = self._content(verdict) if verdict else ledger
        if self.weights.keys() <= content.keys():
            info["graded"] = True
            info["score"] = self.score
            for name, weight in self.weights.items():
                info[f"reward_{name}"] = content[name]
                info[f"verdict_{name}"] = content[name] / weight

    def step(self, text: str) -> Step:
        """Apply one action. An action with invalid syntax costs a turn and raises no error.

        Raises:
            RuntimeError: The episode is over.
        """
        state, rules = self.state, self.rules
        if state.done:
            raise RuntimeError("the episode is over: start a new session")
        # convert surrogate pairs as a JSON parser does, so that a replayed record has the same text
        text = paired(text)
        outcome: ToolCall | FailedCall | Edit | Shown = self._read(text)
        if isinstance(outcome, ToolCall) and outcome.name != "submit":
            outcome = self._acted(outcome)
        doc, edits = state.document, state.edits
        failed_edits, reviewed = state.failed_edits, state.reviewed
        error: ToolError = "none"
        ledger: dict[str, float] = {}
        if isinstance(outcome, Edit):
            ledger["edit"] = self.tool_rewards["edit"]
            if rules.layout_reward == "continuous":
                potential = rules.layout_potential
                ledger["layout"] = potential(outcome.document) - potential(doc)
            doc = outcome.document
            edits += 1
            told = rules.feedback_every and edits % rules.feedback_every == 0
            remarks = f"\nfeedback: {self.feedback(doc.text)}" if told else ""
            reply = f"{outcome.diff}{remarks}\n{layout(doc, rules)}"
        elif isinstance(outcome, FailedCall):
            error = outcome.error
            reply = f"error ({error}): {outcome.reason}"
            is_edit = outcome.name in self.editors
            failed_edits += is_edit
            term = "failed_edit" if is_edit else "malformed"
            ledger[term] = self.tool_rewards[term]
        elif isinstance(outcome, Shown):
            reply = f"{outcome.text}\n{layout(doc, rules)}"
            if outcome.paid and not reviewed:
                ledger["review"] = self.tool_rewards["review"]
            reviewed |= outcome.paid
        else:
            reply = "submitted"
            ledger["submit"] = self.tool_rewards["submit"]
        submitted = "submit" in ledger
        turns = state.turns + 1
        done = submitted or turns == rules.max_turns
        if done:
            self._close(doc, submitted, ledger)
        reply = f"{reply}\n{meta_line(rules.max_turns - turns, rules.max_turns, edits)}"
        if (excess := len(reply) - MAX_OBSERVATION) > 0:
            half = MAX_OBSERVATION // 2 - 50
            reply = f"{reply[:half]}\n[{excess + 100} characters left out]\n{reply[-half:]}"
        step = Step(reply, sum(ledger.values(), 0.0), done, error, ledger)
        self.state = State(
            document=doc,
            turns=turns,
            edits=edits,
            failed_edits=failed_edits,
            reviewed=reviewed,
            submitted=submitted,
            done=done,
            reward=state.reward + step.reward,
            transcript=(*state.transcript, (text, step)),
        )
        return step

    def _acted(self, call: ToolCall) -> Edit | Shown | FailedCall:
        """Run a tool; an edit that changes nothing or exceeds the size limit is a failed call."""
        outcome = self.act(call)
        if isinstance(outcome, Edit):
            size = len(outcome.document.text)
            if size > self.rules.max_chars:
                limit = f"{size} characters, the limit is {self.rules.max_chars}"
                return FailedCall("too_large", f"the {self.noun} would have {limit}", call.name)
            if outcome.document.text == self.text:
                return FailedCall("unchanged", "the edit changes nothing", call.name)
        elif not isinstance(outcome, Shown | FailedCall):
            got = type(outcome).__name__
            raise TypeError(f"act({call.name}): expected Edit, Shown or FailedCall, got {got}")
        return outcome

    def _read(self, text: str) -> ToolCall | FailedCall:
        if len(text) > self.rules.max_chars:
            limit = f"{len(text)} characters, the limit is {self.rules.max_chars}"
            return FailedCall("too_large", f"the action has {limit}")
        return self.toolbox.read(text)

    def _content(self, verdict: VerdictT) -> dict[str, float]:
        if not isinstance(verdict, self.verdict_type):
            wanted = self.verdict_type.__name__
            raise ValueError(f"verdict: expected a {wanted}, got {verdict!r}")
        for name in self.verdict_weights:
            value, most = getattr(verdict, name), self.verdict_limit
            if not -most <= value <= most:  # also rejects NaN
                raise ValueError(f"verdict: {name}: expected -{most} to {most}, got {value}")
        return rewards.verdict_ledger(verdict, self.verdict_weights)

    def _unedited(self, doc: Document) -> bool:
        return doc.text == self.original

    def _close(self, doc: Document, submitted: bool, ledger: dict[str, float]) -> None:
        """Add the terms that the end of an episode earns without a judge, such as "layout"."""
        if not submitted:
            ledger["no_submit"] = self.tool_rewards["no_submit"]
        if self.rules.layout_reward == "binary":
            fits = doc.lines <= self.rules.page_lines
            ledger["layout"] = rewards.LAYOUT if fits else -rewards.LAYOUT
        if self._unedited(doc):
            content = {**dict.fromkeys(self.weights, 0.0), **self.unchanged()}
            if strange := content.keys() - self.weights.keys():
                known = ", ".join(self.weights)
                raise ValueError(f"unchanged: expected {known}; got {', '.join(strange)}")
            ledger.update(content)

    def grade(self, verdict: VerdictT) -> Ledger:
        """Store a judge's verdict on the final document and return the verdict's reward terms.

        A later verdict replaces an earlier one.

        Raises:
            RuntimeError: The episode is still running, or the document is unchanged.
            ValueError: The verdict is not a `verdict_type`, has a grade beyond `verdict_limit`, a
                reason that is no text, or a value that JSON cannot represent.
        """
        state = self.state
        if not state.done:
            raise RuntimeError("the episode is not over: only a final document can be graded")
        if self._unedited(state.document):
            raise RuntimeError("the document is unchanged: the episode needs no verdict")
        ledger = self._content(verdict)
        reasons = getattr(verdict, "reasons", {})
        if not isinstance(reasons, Mapping) or any(
            type(why) is not str for why in reasons.values()
        ):
            raise ValueError(f"verdict: expected reasons that map fields to texts, got {reasons!r}")
        try:
            json.dumps(asdict(verdict), allow_nan=False)  # type: ignore[call-overload]
        except (TypeError, ValueError) as error:
            raise ValueError(f"verdict: expected JSON values: {error}") from None
        earlier = sum(self._content(state.verdict).values()) if state.verdict else 0.0
        reward = state.reward - earlier + sum(ledger.values())
        self.state = state._replace(reward=reward, verdict=verdict)
        return ledger

    def snapshot(self) -> State:
        """Return the state of the episode; a state is immutable, so no copy is needed."""
        return self.state

    def restore(self, state: State) -> None:
        """Set the state to a snapshot of this or another episode on the same task."""
        self.state = state

    def fork(self) -> Self:
        """Return an independent session in the same state."""
        twin = object.__new__(type(self))
        twin.task, twin.rules, twin.state = self.task, self.rules, self.state
        return twin

    def close(self) -> None:
        """Do nothing, since an editing episode holds no resources."""

    def record(self) -> dict[str, Any]:
        """Return the episode as JSON values that suffice to replay, regrade and show it."""
        verdict = self.state.verdict
        return {
            "task_id": self.task.task_id,
            "rules": asdict(self.rules),
            "actions": [text for text, _ in self.state.transcript],
            "observations": [step.observation for _, step in self.state.transcript],
            "errors": [step.error for _, step in self.state.transcript],
            "ledgers": self.ledgers,
            "ledger": self.ledger,
            "reward": self.reward,
            "original": self.original,
            "text": self.text,
            "verdict": asdict(verdict) if verdict else None,
            "graded": self.done and not self.needs_verdict,
        }

    @classmethod
    def replay(cls, task: TaskT, record: Mapping[str, Any]) -> Self:
        """Repeat the actions of a record in a new session.

        Raises:
            ValueError: The record belongs to a different task, or the replay's text or reward
                differs from the record's.
        """
        if record["task_id"] != task.task_id:
            raise ValueError(f"expected a record of {task.task_id}, got {record['task_id']}")
        session = cls(task, Rules(**record["rules"]))
        for text in record["actions"]:
            session.step(text)
        if record["verdict"]:
            session.grade(cls.verdict_type(**record["verdict"]))
        for name in ("text", "reward"):
            if getattr(session, name) != record[name]:
                raise ValueError(f"{task.task_id}: the replay ends with a different {name}")
        return session


AnySession: TypeAlias = EditSession[Any, Any]
"""A session of any task and verdict type."""


@lru_cache(maxsize=4096)
def measure(text: str, width: int) -> Document:
    """Measure a text; the result is cached, since many episodes start from the same document."""
    return document.make_document(text, width)


def layout(doc: Document, rules: Rules) -> str:
    """Format the number of wrapped lines and the length of the longest line, for observations."""
    limit = "" if rules.endless else f"/{rules.page_lines}"
    return f"lines: {doc.lines}{limit} | longest line: {doc.longest_line}"


def meta_line(turns_left: int, max_turns: int, edits: int) -> str:
    """Format the last line of an observation, which states turns left and edits."""
    return f"turns left: {turns_left}/{max_turns} | edits: {edits}"
