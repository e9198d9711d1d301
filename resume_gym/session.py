"""The editing session whose document is a resume, revised for a job.

`EditSession` has the state machine; this module adds the resume's prompt, tools and verdicts.
"""

from resume_gym import document, rewards
from resume_gym.document import Edit
from resume_gym.editing import (
    EditSession,
    Ledger,
    Rules,
    Shown,
    State,
    Step,
)
from resume_gym.prompts import SYSTEM_PROMPT, task_brief
from resume_gym.rewards import Verdict
from resume_gym.tasks import Task, TaskError
from resume_gym.tools import TOOLBOX, Malformed, ToolCall

__all__ = ["Ledger", "Rules", "Session", "State", "Step"]


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
            TaskError: The job or the resume is longer than the rules allow.
        """
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
        """The current resume."""
        return self.state.document.text

    @property
    def brief(self) -> str:
        """The job description and the unedited resume."""
        return task_brief(self.task.job, self.task.resume)

    def act(self, call: ToolCall) -> Edit | Shown | Malformed:
        """Replace text or show the page."""
        if call.name == "str_replace":
            return self._replace(**call.arguments)
        rules = self.rules
        return Shown(document.page(self.state.document, rules.page_lines, rules.page_width))

    def unchanged(self) -> Ledger:
        """Return the penalties of an unedited resume; see `rewards.unedited_ledger`."""
        return rewards.unedited_ledger(self.task.weakness)

    def _replace(self, old: str, new: str, count: int = 1) -> Edit | Malformed:
        doc, rules, name = self.state.document, self.rules, "str_replace"
        if not old:
            return Malformed("bad_arguments", "`old` is empty; give the text to replace", name)
        if new == old:
            return Malformed("unchanged", "`new` is equal to `old`", name)
        old, new = document.unix_lines(old), document.unix_lines(new)
        if rules.match == "fuzzy":
            old, new = document.without_margin(doc.text, old, new)
        spans = document.find(doc.text, old, rules.match)
        if len(spans) < count:
            found = f"found {len(spans)} of {count}" if spans else "`old` is not in the resume"
            return Malformed("not_found", found, name)
        if len(spans) > count:
            more = f"`old` occurs {len(spans)} times, expected {count}; make it longer"
            return Malformed("ambiguous", more, name)
        # checked before the replacement, which could build a text of any size
        size = len(doc.text) + sum([len(new) - stop + start for start, stop in spans])
        if size > rules.max_chars:
            limit = f"{size} characters, the limit is {rules.max_chars}"
            return Malformed("too_large", f"the resume would have {limit}", name)
        return document.replace(doc, spans, new, rules.page_width)
