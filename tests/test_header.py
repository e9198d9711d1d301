"""Which heading is the first section of a resume, and what is replaced above it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resume_gym import load_tasks
from resume_gym.corpus.document_error import DocumentError
from resume_gym.corpus.header import CANDIDATE, anonymise, put_back

CONTACT = "ada@example.com | +351 912 345 678"


@pytest.mark.parametrize(
    ("header", "heading"),
    [
        (f"# Ada Moreno\n{CONTACT}\n", "## Experience"),
        (f"# Ada Moreno\n{CONTACT}\n", "# Experience"),
        (f"**Ada Moreno**\n{CONTACT}\n", "**Work History**"),
        (f"ADA MORENO\n{CONTACT}\n", "EXPERIENCE"),
        (f"Ada Moreno\n{CONTACT}\n", "Experience\n----------"),
        (f"{CONTACT}\n", "## Profile"),
        ("", "## Summary"),
        ("", "# Summary"),
        # neither a job title, nor a name, nor contact details are a section
        (f"# Ada Moreno\n## Head of Education\n{CONTACT}\n", "## Summary"),
        (f"# Ada Moreno\n\n## Technical Lead\n\n{CONTACT}\n", "## Summary"),
        (f"# Resume\n\n## Ada Moreno\n- {CONTACT}\n", "## Core Skills & Tools"),
        ("# Resume\n\n## Ada Moreno\n- Lisbon\n", "## Experience"),
        (f"CURRICULUM VITAE\n\nADA MORENO\n{CONTACT}\n", "EXPERIENCE"),
        (f"# Ada Moreno\n\n## Contact\n- {CONTACT}\n", "## Personal Profile"),
        ("# Ada Moreno\n\n## Personal Details\n- Born in 1990\n", "## Personal Statement"),
        # a section with a name of its own
        (f"# Ada Moreno\n{CONTACT}\n", "## Boats I built\n2019 - 2024"),
        (f"# Ada Moreno\n{CONTACT}\n", "## Research Experience\n### PhD, https://mit.example"),
        (f"# Lebenslauf\n## Ada Moreno\n{CONTACT}\n", "## Berufserfahrung\n### X GmbH"),
    ],
)
def test_everything_above_the_first_section_is_replaced(header: str, heading: str) -> None:
    header += "\n" * bool(header)
    rest = f"{heading}\n- Built a pipeline, see https://ada.example\n\n## Education\nBSc\n"
    text, found, note = anonymise(header + rest)
    assert (text, found) == (f"{CANDIDATE}\n\n{rest}", header)
    assert note.startswith(f"{len([*filter(str.strip, header.split(chr(10)))])} line")
    assert put_back(found, text) == (header + rest, True)


@pytest.mark.parametrize(
    "resume",
    [
        f"# Ada Moreno\n{CONTACT}\n\n- Built a pipeline\n",
        f"# Ada Moreno\n\n## Engineer\n{CONTACT}\n\n- Built a pipeline\n",
        "# Ada Moreno\n\n## Contact\n- Lisbon\n",
        "## Ada Moreno\n- Built a pipeline\n",
        "",
    ],
)
def test_a_resume_without_a_section_is_refused(resume: str) -> None:
    with pytest.raises(DocumentError, match="expected a section heading, such as '## Experience'"):
        anonymise(resume)


def test_bundled_resumes_lose_their_names_and_addresses() -> None:
    for source in ("default", "mini"):
        for task in load_tasks(source, "eval"):
            text = anonymise(task.resume).text
            assert task.persona["name"] not in text
            assert "@" not in text


def test_the_header_is_put_where_the_agent_left_the_line() -> None:
    header = f"# Ada\n{CONTACT}\n\n"
    assert put_back(header, f"New\n\n{CANDIDATE}\n\n## Jobs\n") == (
        f"New\n\n{header}## Jobs\n",
        False,
    )
    assert put_back(header, "## Jobs\n") == (f"{header}## Jobs\n", False)
    assert put_back(header, "# CANDIDATE\n\n## Jobs\n") == (f"{header}## Jobs\n", False)


@given(st.text("a#*-\n @", max_size=60), st.text("a#-\n ", max_size=30))
def test_the_header_and_the_rest_are_the_resume(above: str, below: str) -> None:
    resume = f"{above}\n## Experience\n{below}"
    text, header, _ = anonymise(resume)
    assert put_back(header, text) == (resume, True)
