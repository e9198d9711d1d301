"""What the agent reads, apart from the tools' replies."""

SYSTEM_PROMPT = """\
You edit a resume for a job. Each turn, make one tool call. First review, then replace weak text \
with str_replace, then submit before the turns run out. `old` is copied exactly from the resume. \
Use strong verbs and figures, fit the job and the page, and never invent facts."""


def task_prompt(job: str, resume: str, layout: str, meta: str) -> str:
    """The first observation: the job, the resume, its layout and the budget."""
    return f"# Job\n{job}\n\n# Resume\n{resume.rstrip()}\n\n{layout}\n{meta}"


def layout_line(lines: int, page_lines: int, longest_line: int) -> str:
    """The layout state, as it ends every reply that changed or showed the resume."""
    return f"lines: {lines}/{page_lines} | longest line: {longest_line}"


def meta_line(turns_left: int, max_turns: int, edits: int) -> str:
    """The last line of every observation."""
    return f"turns left: {turns_left}/{max_turns} | edits: {edits}"
