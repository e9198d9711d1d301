"""Interactive episode: a session with undo, previews of calls, and grading by a judge."""

from collections.abc import Mapping
from typing import Any

from resume_gym.env import EditEnv, make_edit_env
from resume_gym.episode import document
from resume_gym.episode.editing import AnySession, State, Step
from resume_gym.episode.tools import tool_call
from resume_gym.support.printing import visible
from resume_gym.support.user_errors import TaskError


class PlayedEpisode:
    """Episode played by a person.

    Attributes:
        env: environment, which provides judge and tasks.
        session: current session of the environment.
        undone: number of undone turns, which the session does not record.
        failure: error message of the last judge call; empty if the call succeeded or none was made.
        tools: function schemas of the tools, by tool name.
    """

    def __init__(self, env: EditEnv, session: AnySession) -> None:
        self.env, self.session = env, session
        self.undone = 0
        self.failure = ""
        self.tools: dict[str, Mapping[str, Any]] = {
            tool["function"]["name"]: tool["function"] for tool in session.tools
        }
        self._asked: State | None = None
        self._past: list[State] = []

    @property
    def asking(self) -> bool:
        """Whether a judge call for the current document is in progress."""
        return self._asked is self.session.state

    @property
    def sources(self) -> tuple[str, str]:
        """Heading and text of the task's brief, without the document to edit."""
        session = self.session
        text = session.brief
        original = session.original.rstrip()
        if text.endswith(original):
            # another pane shows the document: drop the document and its heading
            text, _, heading = text.removesuffix(original).rstrip().rpartition("\n")
            text = text if heading.startswith("#") else f"{text}\n{heading}"
        first, _, rest = text.strip().partition("\n")
        return (first[2:], rest.strip()) if first.startswith("# ") else ("Given", text.strip())

    def following(self) -> "PlayedEpisode":
        """Start an episode on another random task of the same environment."""
        self.env.reset()
        assert self.env.session is not None
        return PlayedEpisode(self.env, self.env.session)

    def call(self, name: str, arguments: Mapping[str, object]) -> Step:
        """Take a turn with a tool call."""
        self._past.append(self.session.snapshot())
        return self.session.step(tool_call(name, **arguments))

    def undo(self) -> bool:
        """Undo the last turn; return whether there was one."""
        if not self._past:
            return False
        self.session.restore(self._past.pop())
        self.undone += 1
        self.failure = ""
        return True

    def anchor(self, name: str) -> str:
        """Return the name of a tool's first string argument, which locates the edit; "" if none."""
        properties = self.tools[name]["parameters"]["properties"]
        return next((key for key, kind in properties.items() if kind["type"] == "string"), "")

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the (start, end) spans of a text's matches in the document; see `Rules.match`."""
        session = self.session
        return document.find(session.text, document.unix_lines(text), session.rules.match)

    def preview(self, name: str, arguments: Mapping[str, object]) -> tuple[bool, str]:
        """Predict the outcome of a call by playing the turn in a copy of the session.

        Returns:
            Whether the call would succeed, and a description of its effect or of its failure.
        """
        twin = self.session.fork()
        step = twin.step(tool_call(name, **arguments))
        if step.error != "none":
            reply = step.observation.removeprefix(f"error ({step.error}): ")
            return False, reply.rpartition("\n")[0]  # drop the last line, the turn budget
        if "edit" not in step.ledger:
            return True, "shows text"
        lines = f"lines would be {twin.state.document.lines}/{twin.rules.page_lines}"
        return True, f"deletes the text; {lines}" if arguments.get("new") == "" else lines

    async def ask(self) -> None:
        """If the episode needs a verdict, ask the judge; store the judge's error in `failure`."""
        before = self.session.snapshot()
        twin = self.session.fork()  # the person may undo turns while the judge is working
        failure = ""
        self._asked = before
        try:
            await self.env.agrade(twin)
        except Exception as problem:  # user-defined judges may raise anything
            failure = f"{type(problem).__name__}: {problem}"
        finally:
            if self._asked is before:  # else a newer call of `ask` is in progress
                self._asked = None
        if self.session.state is before:  # else an undo has made the verdict obsolete
            self.session.restore(twin.state)
            self.failure = failure

    def outcome(self) -> str:
        """Return one line with the reward and the score, or the reason why the score is missing."""
        session = self.session
        if not session.done:
            return f"reward so far {session.reward:+.2f}; not submitted, not graded"
        if session.needs_verdict:
            return f"reward without the verdict {session.reward:+.2f}; not graded"
        return f"reward {session.reward:+.2f}, score {session.score:.0f} of 100"

    def summary(self) -> str:
        """Return a summary of the episode, to be printed after the game."""
        session = self.session
        terms = [f"{name} {value:+.2f}" for name, value in session.ledger.items() if value]
        lines = [f"{visible(session.task.task_id)}: {self.outcome()}", ", ".join(terms)]
        if self.undone:
            lines.append(f"undone turns, not counted: {self.undone}")
        if self.failure:
            lines.append(f"the judge gave no verdict: {visible(self.failure)}")
        return "\n".join(line for line in lines if line)


def start(
    env: str, task_id: str | None = None, seed: int | None = None, **options: object
) -> PlayedEpisode:
    """Create an environment and start an episode for a person to play.

    Args:
        env: ID of an editing environment, or module:ID.
        task_id: ID of the task to play; None for a random task.
        seed: seed of the environment's random choices, as in `reset(seed=...)`.
        options: arguments of `make_edit_env`; by default, the task may be of any split.

    Raises:
        TaskError: the environment, task source, task or judge does not exist.
    """
    made = make_edit_env(env, **{"split": None, **options})
    try:
        made.reset(seed=seed, options={"task_id": task_id})
    except ValueError as problem:
        raise TaskError(f"{env}: {problem}") from None
    assert made.session is not None
    return PlayedEpisode(made, made.session)
