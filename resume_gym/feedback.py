"""`ResumeEditFeedback-v0`: remarks on the draft during an episode, on request or after edits."""

from resume_gym.document import Edit
from resume_gym.editing import Shown
from resume_gym.env import ResumeEditEnv
from resume_gym.judges.critique import feedback
from resume_gym.session import SYSTEM_PROMPT, Session
from resume_gym.tools import TOOLS, FailedCall, Toolbox, ToolCall, schema

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
        """Return at most three remarks on a draft, by the rules of the judge `critique`."""
        return feedback(self.task, text)


class ResumeEditFeedbackEnv(ResumeEditEnv):
    """`ResumeEdit-v0` with the tool `feedback()`.

    The tool shows at most three remarks on the draft; each remark quotes a line. A call of the tool
    costs a turn and earns no reward. With `feedback_every=k`, the reply to every k-th edit includes
    remarks, too. Remarks name neither the fields of the verdict nor the planted weakness. Other
    arguments and the rewards are those of `ResumeEdit-v0`.
    """

    session_type = FeedbackSession
