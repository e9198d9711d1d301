"""An episode that a person plays: a session with a way back, and a judge to ask."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from resume_gym import document
from resume_gym.editing import EditSession, State, Step
from resume_gym.env import EditEnv
from resume_gym.render import visible
from resume_gym.tools import Malformed, ToolCall, tool_call


class Preview(NamedTuple):
    """What a call would do.

    Attributes:
        found: how often the first text argument stands in the document; None if it is empty.
        works: whether the call would change or show something.
        told: the layout that would follow, or what is wrong.
    """

    found: int | None
    works: bool
    told: str


class PlayedEpisode:
    """An episode that a person plays.

    Attributes:
        env: whose judge is asked.
        session: the episode as it stands.
        undone: turns taken back; the session knows nothing of them.
        failure: why the judge gave no verdict; empty if it was not asked or gave one.
    """

    def __init__(self, env: EditEnv, session: EditSession[Any, Any]) -> None:
        self.env, self.session = env, session
        self.undone = 0
        self.failure = ""
        self._asked: State | None = None
        self._past: list[State] = []

    @property
    def asking(self) -> bool:
        """Whether the judge is being asked about the document as it stands."""
        return self._asked is not None and self._asked is self.session.state

    @property
    def tools(self) -> Mapping[str, Mapping[str, Any]]:
        """Schemas of the tools' functions by name."""
        return {one["function"]["name"]: one["function"] for one in self.session.tools}

    @property
    def sources(self) -> tuple[str, str]:
        """Heading and text of what is given beside the document."""
        session = self.session
        text = session.brief
        document_at_end = session.original.rstrip()
        if text.endswith(document_at_end):
            # the document has a pane of its own; its heading goes too
            text, _, heading = text.removesuffix(document_at_end).rstrip().rpartition("\n")
            text = text if heading.startswith("#") else f"{text}\n{heading}"
        first, _, rest = text.strip().partition("\n")
        return (first[2:], rest.strip()) if first.startswith("# ") else ("Given", text.strip())

    def call(self, name: str, arguments: Mapping[str, Any]) -> Step:
        """Spend a turn on a call of a tool."""
        before = self.session.snapshot()
        step = self.session.step(tool_call(name, **arguments))
        self._past.append(before)
        return step

    def undo(self) -> bool:
        """Take the last turn back, as if it had never been; whether there was one."""
        if not self._past:
            return False
        self.session.restore(self._past.pop())
        self.undone += 1
        self.failure = ""
        return True

    def anchor(self, name: str) -> str:
        """The argument that says where a tool acts: its first that is a text; empty if none."""
        properties = self.tools[name]["parameters"]["properties"]
        return next((key for key, kind in properties.items() if kind["type"] == "string"), "")

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where a text stands in the document, by the rules of the episode."""
        session = self.session
        wanted = document.unix_lines(text)
        return document.find(session.text, wanted, session.rules.match) if wanted else []

    def preview(self, name: str, arguments: Mapping[str, Any]) -> Preview:
        """What a call would do; costs nothing and changes nothing."""
        session = self.session
        text = arguments.get(self.anchor(name))
        if not text or session.done:
            return Preview(None, False, "")
        found = len(self.spans(text))
        outcome: Any = session.toolbox.read(tool_call(name, **arguments))
        if isinstance(outcome, ToolCall):
            outcome = session.act(outcome)
        if isinstance(outcome, Malformed):
            return Preview(found, False, outcome.reason)
        if not isinstance(outcome, document.Edit):
            return Preview(found, True, "shows text")
        limit = session.rules.page_lines
        return Preview(found, True, f"lines would be {outcome.document.lines}/{limit}")

    async def ask(self) -> None:
        """Ask the judge, if a verdict is needed; `failure` says why there is none."""
        before = self.session.snapshot()
        twin = self.session.fork()
        failure = ""
        self._asked = before
        try:
            await self.env.agrade(twin)
        except Exception as problem:  # a judge of one's own may raise anything
            failure = f"{type(problem).__name__}: {problem}"
        finally:
            if self._asked is before:
                self._asked = None
        if self.session.state is before:  # else the last turn was undone meanwhile
            self.session.restore(twin.state)
            self.failure = failure

    def outcome(self) -> str:
        """Reward and score, or why they are not final."""
        session = self.session
        if not session.done:
            return f"reward so far {session.reward:+.2f}; not submitted, not graded"
        if session.needs_verdict:
            return f"reward without the verdict {session.reward:+.2f}; not graded"
        return f"reward {session.reward:+.2f}, score {session.score:.0f} of 100"

    def summary(self) -> str:
        """A few lines for who has left the game."""
        session = self.session
        terms = [f"{name} {value:+.2f}" for name, value in session.ledger.items() if value]
        lines = [f"{visible(session.task.task_id)}: {self.outcome()}", ", ".join(terms)]
        if self.undone:
            lines.append(f"turns undone, which count nowhere: {self.undone}")
        if self.failure:
            lines.append(f"the judge gave no verdict: {visible(self.failure)}")
        return "\n".join(line for line in lines if line)
