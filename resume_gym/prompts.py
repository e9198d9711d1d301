"""The system prompt and the fixed parts of observations."""

SYSTEM_PROMPT = """\
You edit a resume for a job. Each turn, make one tool call. First review, then replace weak text \
with str_replace, then submit before the turns run out. `old` is copied exactly from the resume. \
Use strong verbs and figures, fit the job and the page, and never invent facts."""


def task_brief(job: str, resume: str) -> str:
    """Format the job and the resume for the first observation."""
    return f"# Job\n{job}\n\n# Resume\n{resume.rstrip()}"


def layout_line(lines: int, page_lines: int, longest_line: int) -> str:
    """Format the layout line of prompts and of replies that change or show the document."""
    return f"lines: {lines}/{page_lines} | longest line: {longest_line}"


def meta_line(turns_left: int, max_turns: int, edits: int) -> str:
    """Format the last line of every observation."""
    return f"turns left: {turns_left}/{max_turns} | edits: {edits}"
