"""Sessions in which an agent revises a resume for a job.

`EditSession` implements the state machine; this module adds what is specific to resumes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from resume_gym.episode import document, rewards
from resume_gym.episode.document import Edit
from resume_gym.episode.editing import (
    EditSession,
    Ledger,
    Rules,
    Shown,
    State,
    Step,
    measure,
)
from resume_gym.episode.rewards import LineVerdict, Verdict
from resume_gym.episode.tasks import Task
from resume_gym.episode.tools import TOOLBOX, FailedCall, ToolCall
from resume_gym.support.user_errors import TaskError

__all__ = ["Ledger", "Rules", "Session", "State", "Step"]

SYSTEM_PROMPT = """\
You edit a resume for a job. Each turn, make one tool call. First review, then replace weak text \
with str_replace, then submit before the turns run out. `old` is copied exactly from the resume. \
Use strong verbs and figures, fit the job and the page, and never invent facts."""


class Session(EditSession[Task, Verdict]):
    """One episode on one resume.

    >>> session = Session(task)
    >>> session.step(tool_call("review")).reward
    1.0
    """

    __slots__ = ()

    noun = "resume"
    system_prompt = SYSTEM_PROMPT
    toolbox = TOOLBOX
    editors = frozenset({"str_replace"})
    verdict_type = Verdict
    verdict_weights = rewards.VERDICT_WEIGHTS

    def __init__(self, task: Task, rules: Rules | None = None) -> None:
        """Start an episode.

        Raises:
            TaskError: The job or the resume is longer than the rules allow, or the task has a
                rubric although the session rewards single lines (as `NetSession` does).
        """
        if task.rubric and self.verdict_type is not Verdict:
            raise TaskError(f"{task.task_id}: expected no rubric, since only lines are graded")
        limit = (rules or Rules()).max_chars
        for name, text in (("job", task.job), ("resume", task.resume)):
            if len(text) > limit:
                told = f"{len(text)} characters, the limit is {limit}"
                raise TaskError(f"{task.task_id}: the {name} has {told}")
        super().__init__(task, rules)

    @property
    def original(self) -> str:
        """The unedited resume of the task."""
        return self.task.resume

    @property
    def resume(self) -> str:
        """The current text of the resume."""
        return self.state.document.text

    @property
    def brief(self) -> str:
        """The job description and the unedited resume."""
        return f"# Job\n{self.task.job}\n\n# Resume\n{self.task.resume.rstrip()}"

    def act(self, call: ToolCall) -> Edit | Shown | FailedCall:
        """Replace text in the resume or show the page, depending on the call."""
        match call.name:
            case "str_replace":
                return self._replace(**call.arguments)
            case "review":
                rules = self.rules
                return Shown(document.page(self.state.document, rules.page_lines, rules.page_width))
        raise NotImplementedError(f"act: the tool {call.name!r} has no implementation")

    def unchanged(self) -> Ledger:
        """Return the penalties of an unedited resume; see `rewards.unedited_ledger`."""
        return rewards.unedited_ledger(self.task.weakness)

    @property
    def weights(self) -> Mapping[str, float]:
        """Reward weight of each term; for `rubric`, the sum of its items' absolute weights."""
        if not self.task.rubric:
            return self.verdict_weights
        return {**self.verdict_weights, "rubric": sum(abs(one.weight) for one in self.task.rubric)}

    @property
    def items(self) -> Mapping[str, int]:
        """The grade of each rubric item, keyed by text (see `Verdict.items`); 0 until grading."""
        verdict = self.verdict
        return {x.text: verdict.items[x.text] if verdict else 0 for x in self.task.rubric}

    @classmethod
    def terms_of(cls, tasks: Sequence[Task]) -> tuple[str, ...]:
        """See `EditSession.terms_of`."""
        return (*cls.terms, "rubric") if any(task.rubric for task in tasks) else cls.terms

    @property
    def bounds(self) -> tuple[float, float]:
        """See `EditSession.bounds`; a rubric's negative and positive weights widen the range."""
        least, greatest = super().bounds
        for item in self.task.rubric:
            least, greatest = least + min(0.0, item.weight), greatest + max(0.0, item.weight)
        return least, greatest

    def grade(self, verdict: Verdict) -> Ledger:
        """See `EditSession.grade`; rules grade all rubric items but those of the kind "judged"."""
        if self.task.rubric and isinstance(verdict, Verdict):
            from resume_gym.text.items import grade_items  # imported here, since the import is slow

            verdict = grade_items(self.task, self.resume, verdict)
        return super().grade(verdict)

    def record(self) -> dict[str, Any]:
        """See `EditSession.record`; a verdict has `items` only if the task has a rubric."""
        record = super().record()
        if record["verdict"] and not self.task.rubric:
            record["verdict"].pop("items", None)
        return record

    def _content(self, verdict: Verdict) -> dict[str, float]:
        content = super()._content(verdict)
        if rubric := self.task.rubric:
            amounts = [abs(item.weight) * verdict.items[item.text] for item in rubric]
            content["rubric"] = sum(amounts)
        return content

    def _replace(self, old: str, new: str, count: int = 1) -> Edit | FailedCall:
        doc, rules, name = self.state.document, self.rules, "str_replace"
        if not old:
            return FailedCall("bad_arguments", "`old` is empty; give the text to replace", name)
        if new == old:
            return FailedCall("unchanged", "`new` is equal to `old`", name)
        old, new = document.unix_lines(old), document.unix_lines(new)
        if rules.match == "fuzzy":
            old, new = document.without_margin(doc.text, old, new)
        spans = document.find(doc.text, old, rules.match)
        if len(spans) < count:
            found = f"found {len(spans)} of {count}" if spans else "`old` is not in the resume"
            if not spans and (other := document.difference(doc.text, old)):
                found += f": it has {other}"
            return FailedCall("not_found", found, name)
        if len(spans) > count:
            more = f"`old` occurs {len(spans)} times, expected {count}; make it longer"
            return FailedCall("ambiguous", more, name)
        if len(spans) > 1 and spans[-1][0] < spans[-2][1]:
            more = "two occurrences of `old` overlap; make it longer"
            return FailedCall("ambiguous", more, name)
        # check the size before building the text: many long replacements could fill the memory
        size = len(doc.text) + sum([len(new) - stop + start for start, stop in spans])
        if size > rules.max_chars:
            limit = f"{size} characters, the limit is {rules.max_chars}"
            return FailedCall("too_large", f"the resume would have {limit}", name)
        return document.replace(doc, spans, new, rules.page_width)


class NetSession(Session):
    """One episode on one resume, with a reward for each changed line of the final document.

    Apart from failed calls and a missing submit, only the final document determines the return.
    """

    __slots__ = ()

    verdict_type = LineVerdict  # type: ignore[assignment]
    verdict_weights = rewards.LINE_WEIGHTS
    verdict_limit = 1_000_000
    tool_rewards = rewards.LINE_TOOL_REWARDS

    def unchanged(self) -> Ledger:
        """Return no terms: an unchanged resume earns nothing for its content."""
        return {}

    @property
    def bounds(self) -> tuple[float, float]:
        """See `EditSession.bounds`; see `LineVerdict` for the maximum numbers of lines."""
        tools, weights = self.tool_rewards, self.verdict_weights
        lines = sum(bool(line.strip()) for line in self.original.split("\n"))
        least, greatest = self.layout_bounds
        least += (self.rules.max_turns - 1) * tools["failed_edit"] + tools["no_submit"]
        least -= max(weights["rejected"], 2 * lines * weights["worse"])
        return least, greatest + tools["submit"] + lines * weights["improved"]

    @property
    def scale(self) -> tuple[float, float]:
        """See `EditSession.scale`; a submitted original scores 50, a repaired one about 100."""
        alone = self.tool_rewards["submit"]
        repairs = sum(not fix.needs_evidence for fix in self.task.fixes)
        gain = self.verdict_weights["improved"] * max(1, repairs)
        if self.rules.layout_reward == "continuous":
            gain -= self.rules.layout_potential(measure(self.original, self.rules.page_width))
        return alone - gain, alone + gain
