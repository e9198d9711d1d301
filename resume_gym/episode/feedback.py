"""`ResumeEditFeedback-v0`: remarks on the draft during an episode, on request or after edits."""

from resume_gym.episode.document import Edit
from resume_gym.episode.editing import Shown
from resume_gym.episode.session import SYSTEM_PROMPT, Session
from resume_gym.episode.tools import TOOLS, FailedCall, Toolbox, ToolCall, schema
from resume_gym.judges.critique import feedback

FEEDBACK = schema("feedback", "Show what a reader of the resume notices.", {}, [])


class FeedbackSession(Session):
    """One episode on one resume, with a tool that shows remarks on the draft."""

    __slots__ = ()

    system_prompt = f"{SYSTEM_PROMPT} The tool feedback shows what a reader notices."
    toolbox = Toolbox(TOOLS[0], FEEDBACK, *TOOLS[1:])

    def act(self, call: ToolCall) -> Edit | Shown | FailedCall:
        """Show remarks on the draft for `feedback`; other calls edit or show the resume."""
        if call.name == "feedback":
            return Shown(f"feedback: {self.feedback(self.resume)}", paid=False)
        return super().act(call)

    def feedback(self, text: str) -> str:
        """Return at most three remarks on a draft, by rules; see `judges.critique`."""
        return feedback(self.task, text)
