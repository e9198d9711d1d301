"""Plain text becomes the Markdown of the environment; what is uncertain stays as it is."""

import re
from pathlib import Path

import pytest
from document_files import MARKDOWN, TEXT, put, read
from hypothesis import given
from hypothesis import strategies as st

from resume_gym.corpus.documents import read_document
from resume_gym.corpus.outline import write_markdown
from resume_gym.corpus.plain_text import text_rows
from resume_gym.text.lines import parse


def words(text: str) -> list[str]:
    return sorted(re.findall(r"\w+", text.lower()))


def test_plain_text_becomes_the_markdown_of_the_environment(tmp_path: Path) -> None:
    assert read_document(put(tmp_path, "jane.txt", TEXT)).text == MARKDOWN
    crlf = put(tmp_path, "crlf.txt", b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())
    assert read_document(crlf).text == MARKDOWN
    utf16 = put(tmp_path, "utf16.txt", TEXT.encode("utf-16"))
    assert read_document(utf16).text == MARKDOWN


def job(header: str) -> str:
    """The Markdown of a job header in a resume of plain text."""
    text, _ = read("plain text", f"Ida Falk\n\nEXPERIENCE\n\n{header}\n- Ran the mill\n")
    start, end = "# Ida Falk\n\n## Experience\n\n", "\n\n- Ran the mill\n"
    assert text.startswith(start)
    assert text.endswith(end)
    return text.removeprefix(start).removesuffix(end)


@pytest.mark.parametrize(
    ("header", "shown"),
    [
        ("Miller, Olm Mills 2017 - 2021", "### Miller, Olm Mills\n\n2017 - 2021"),
        ("Miller, Olm Mills (03/2017 – now)", "### Miller, Olm Mills\n\n03/2017 – now"),
        ("2017 - 2021   Miller, Olm Mills", "### Miller, Olm Mills\n\n2017 - 2021"),
        (
            "Olm Mills\nMiller\nMarch 2017 - Present (4 years 2 months)\nLund",
            "### Olm Mills\n\nMiller | March 2017 - Present (4 years 2 months) | Lund",
        ),
        # the year may belong to the name, and the arrow to the dates
        ("Miller at Expo 2020", "Miller at Expo 2020"),
        ("Miller, Olm Mills 2017 → 2021", "Miller, Olm Mills 2017 → 2021"),
        ("Miller, Olm, 2017\nBaker, Inn, 2019", "Miller, Olm, 2017\n\nBaker, Inn, 2019"),
        ("What I did", "What I did"),
        ("OLM MILLS\nMiller, 2017 - 2021", "OLM MILLS\n\n### Miller\n\n2017 - 2021"),
    ],
)
def test_a_job_header_is_split_only_where_its_date_is_certain(header: str, shown: str) -> None:
    assert job(header) == shown


def test_spaced_out_headings_and_names_are_read() -> None:
    text = "I D A  F A L K\n\nW O R K  H I S T O R Y\n- Ran it\n\nQ U I R K S\nChess\n"
    assert read("plain text", text)[0] == (
        "# Ida Falk\n\n## Work History\n\n- Ran it\n\n## Q U I R K S\n\nChess\n"
    )


@pytest.mark.parametrize("mark", ["→", "»", "✅", "✔️", "🚀", "❯"])
def test_a_symbol_that_begins_two_lines_is_a_bullet(mark: str) -> None:
    text = f"Ida Falk\n\nEXPERIENCE\n\nMiller, Olm, 2017\n{mark} Ground 40 tons\n  of rye\n"
    assert read("plain text", f"{text}{mark} Led two\n")[0].endswith(
        "\n\n### Miller, Olm\n\n2017\n\n- Ground 40 tons of rye\n- Led two\n"
    )


def test_a_lone_symbol_is_kept_apart() -> None:
    text = "Ida Falk\n\nEXPERIENCE\n\nMiller, Olm, 2017\n→ Ground rye\n"
    assert read("plain text", text)[0].endswith("\n\nMiller, Olm, 2017\n\n→ Ground rye\n")


def test_symbols_of_places_and_dates_are_no_bullets() -> None:
    text = "Ida Falk\n\n📍 Lund\n\nEXPERIENCE\n\nMiller\n📍 Lund\n\nBaker\n📍 Malmö\n"
    assert "- " not in read("plain text", text)[0]


def test_hashes_in_plain_text_are_no_headings(tmp_path: Path) -> None:
    header = "Miller, Olm Mills, 2017 - 2021\n# of mills: 3\n# of cats: 4"
    assert job(header) == "### Miller, Olm Mills\n\n2017 - 2021 | # of mills: 3 | # of cats: 4"
    text, _ = read(
        "plain text", "Ida Falk\n\n# of cats: 4\n\nEXPERIENCE\n- Ran it\n\n# of mills: 3\n"
    )
    assert text.endswith("\n\n\\# of mills: 3\n")
    for markdown in ("# Ida Falk\n\nMiller\n", "Ida\n\n## Experience\n\nMiller\n"):
        assert read_document(put(tmp_path, "ida.txt", markdown)).text == markdown


@pytest.mark.parametrize("mark", ["•", "-", "–", "▪", "o", "\uf0b7", "1.", "2)"])
def test_marks_of_bullets(mark: str) -> None:
    rows = text_rows(f"Ada Moreno\n\nEXPERIENCE\n{mark} Built it\n{mark} Led it\n")
    kept = f"{mark[0]}." if mark[0].isdigit() else "-"
    assert write_markdown(rows).endswith(f"\n\n{kept} Built it\n{kept} Led it\n")


ROW = st.one_of(
    st.sampled_from(TEXT.split("\n")),
    st.text("aZ 09.,•-*|\t()'@", max_size=40),
    st.sampled_from(["2019 - 2021", "Engineer, Acme   Jan 2020 - now", "SKILLS", "====", "o a"]),
)


@given(st.lists(ROW, max_size=25))
def test_plain_text_loses_no_word(rows: list[str]) -> None:
    # A lone "o" is the mark of a bullet, a rule of underscores no word. A hyphen at the end of a
    # line may be removed.
    kept = [row for row in rows if not re.match(r"\s*o\s|.*\w-\s*$", row)]
    text = "\n".join(["Ada Moreno", *kept])
    assert words(write_markdown(text_rows(text))) == words(text)


def test_front_matter_of_plain_text_is_not_the_name() -> None:
    text = "---\ntitle: x\n---\nSam Hill\n\nEXPERIENCE\n- Led the team\n"
    assert read("plain text", text) == (
        "# Sam Hill\n\n## Experience\n\n- Led the team\n",
        ["front matter left out: title"],
    )


@pytest.mark.parametrize(
    "dates",
    ["14. Oktober 2019 - 3. Mai 2021", "enero de 2019 - actualidad", "2019 - היום", "2019 –",
     "12. March 2020 to date", "listopad 2019 - obecnie", "01.02.2019-31.12.2020"],
)  # fmt: skip
def test_dates_of_other_languages_are_no_list(dates: str) -> None:
    assert job(f"Analystin, Kessel\n{dates}") == f"### Analystin, Kessel\n\n{dates}"
    assert parse(f"# Carla\n\n## X\n\n{dates}\n")[2].kind == "entry"


@pytest.mark.parametrize(
    "text",
    ["a" * 80_000 + "\nb", "x\n" + "ab-\n" * 30_000, "a" + " " * 180_000 + "b", "a-\nb\n" * 15_000],
    ids=["word", "hyphens", "blanks", "lines"],
)
def test_long_runs_of_plain_text_are_read_in_linear_time(text: str, tmp_path: Path) -> None:
    """Searches that start at each character would exceed the reader's limit of CPU time."""
    found = read_document(put(tmp_path, "long.txt", text)).text
    assert 0 < len(found) <= 2 * len(text)
