"""What the agent reads, apart from the tools' replies."""

SYSTEM_PROMPT = """\
You edit a resume for a job. Each turn, make one tool call. First review, then replace weak text \
with str_replace, then submit before the turns run out. `old` is copied exactly from the resume. \
Use strong verbs and figures, fit the job and the page, and never invent facts."""


def task_brief(job: str, resume: str) -> str:
    """The job and the resume, as the first observation shows them."""
    return f"# Job\n{job}\n\n# Resume\n{resume.rstrip()}"


def layout_line(lines: int, page_lines: int, longest_line: int) -> str:
    """The layout state, as it ends every reply that changed or showed the resume."""
    return f"lines: {lines}/{page_lines} | longest line: {longest_line}"


def meta_line(turns_left: int, max_turns: int, edits: int) -> str:
    """The last line of every observation."""
    return f"turns left: {turns_left}/{max_turns} | edits: {edits}"
