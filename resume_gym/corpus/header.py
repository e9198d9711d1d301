"""Replace the header of a resume: everything above its first section heading.

The header has the candidate's name and contact details. Personal data below the first section
heading is not looked for.
"""

import re
from collections.abc import Sequence
from itertools import pairwise, takewhile
from typing import NamedTuple

from resume_gym.corpus.document_error import DocumentError
from resume_gym.corpus.recognition import TITLES, is_section, looks_like_heading
from resume_gym.support.user_errors import number_of
from resume_gym.text.lines import LEXICON, Line, parse

CANDIDATE = "# Candidate"
"""Line that stands in place of a header."""

_SECTION_WORDS = frozenset(LEXICON["words"]["sections"])
_CONTACT_WORDS = frozenset(("contact", "personal", "details", "information", "info", "data", "me"))
_MAIL_OR_PHONE = re.compile(r"@|\+\d|(?<!\d)\(?\d{3}\)?[ .-]\d{3}")


class Anonymous(NamedTuple):
    """A resume without its header.

    Attributes:
        text: the resume with `CANDIDATE` in place of the header.
        header: the lines that were replaced.
        note: what was replaced, in words for the user.
    """

    text: str
    header: str
    note: str


def anonymise(resume: str) -> Anonymous:
    """Replace everything above the first section heading of a resume by `CANDIDATE`.

    Raises:
        DocumentError: the resume has no section heading.
    """
    lines = parse(resume)
    headings = [n for n, line in enumerate(lines) if _is_heading(line)]
    for n, stop in pairwise((*headings, len(lines))):
        if _opens_section(lines[:n], lines[n].body, lines[n + 1 : stop]):
            break
    else:
        expected = "expected a section heading, such as '## Experience', below the contact details"
        raise DocumentError(f"{expected}; found none, so nothing can be made anonymous")
    source = resume.split("\n")
    place = lines[n].number
    header = "".join(f"{line}\n" for line in source[:place])
    count = number_of(sum(bool(line.strip()) for line in source[:place]), "line")
    note = f'{count} above "{lines[n].body}" replaced by "{CANDIDATE}"; the rest is as it was'
    return Anonymous("\n".join((CANDIDATE, "", *source[place:])), header, note)


def put_back(header: str, revised: str) -> tuple[str, bool]:
    """Put the header back into a revision of an anonymous resume.

    Returns:
        The revision with the header in place of `CANDIDATE`, and whether that was the first line.
        If the line is missing, the header is put in front of the revision, and a first line that
        begins with "candidate" is left out.
    """
    above, found, below = f"\n{revised}".partition(f"\n{CANDIDATE}\n")
    if found:
        return above[1:] + "\n" * bool(above) + header + below.removeprefix("\n"), not above
    first, _, rest = revised.partition("\n")
    renamed = first.lstrip("#*_ ").lower().startswith("candidate")
    return header + (rest.removeprefix("\n") if renamed else revised), False


def _is_heading(line: Line) -> bool:
    # Plain text, and the first line, may have a heading that `parse` does not take as one.
    return line.kind == "heading" or (line.style in ("", "#") and looks_like_heading(line.body))


def _opens_section(above: Sequence[Line], heading: str, below: Sequence[Line]) -> bool:
    """Return whether a heading opens a section, rather than being a name, job title or "Contact".

    A heading that has only usual words of section names ("Work Experience") opens a section. Any
    other heading opens a section if there is a header above it, no email address or phone number
    directly below it, and a list follows or half of its words are usual ("Research Experience").
    """
    words = {*heading.lower().replace("&", "and").rstrip(":").split()}
    if words <= _CONTACT_WORDS or heading.lower() in TITLES:
        return False
    if words <= _SECTION_WORDS:
        return True
    own = takewhile(lambda line: not line.style.startswith("#"), below)
    reachable = any(_MAIL_OR_PHONE.search(line.body) for line in own)
    headed = any(line.body.lower() not in TITLES for line in above)
    listed = any(line.kind == "bullet" for line in below)
    return headed and not reachable and (is_section(heading) or listed)
