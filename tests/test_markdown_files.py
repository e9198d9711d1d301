"""Markdown files, with HTML, tables, front matter, and what other programs export."""

from pathlib import Path

import pytest
from document_files import MARKDOWN, put

from resume_gym.corpus.documents import read_document
from resume_gym.corpus.readers import convert
from resume_gym.corpus.recognition import LINE_ENDS


def test_markdown_of_the_environment_and_jobs_in_plain_text_are_unchanged(tmp_path: Path) -> None:
    for name in ("jane.md", "jane.txt"):
        assert read_document(put(tmp_path, name, MARKDOWN.replace("\n", "\r\n"))).text == MARKDOWN
    job = "DATA ANALYST\n\nYou have\n  • SQL\n"
    assert read_document(put(tmp_path, "job.txt", job), outline=False).text == job


HTML = """\
---
title: Resume
author: Nils Brandt
---

Nils Brandt
===========

<p align="center"><a href="mailto:n@b.example">n@b.example</a> &middot; Berlin<br><img src="x"></p>

Experience &amp; more
---------------------

### Analyst, Kessel
14. Oktober 2019 - heute

<!-- a remark -->
<ul>
  <li>Built <code>&lt;table&gt;</code> for 3 &amp; more
    <ul><li>Nested</li></ul></li>
</ul>

- Kept <b>latency</b> <5 ms for AT&T, List<T>, `<br>`<br/>and <https://x.example>
▪ Led 4 people

| Skill | Years |
|-------|------:|
| SQL \\| PL | 5 |
| 2019 - 2021 | Analyst |

```
<ul>
```
"""


def test_markdown_with_html_tables_and_underlined_headings(tmp_path: Path) -> None:
    read = read_document(put(tmp_path, "nils.md", HTML))
    assert read.text == (
        "# Nils Brandt\n\nn@b.example · Berlin\n\n## Experience & more\n\n"
        "### Analyst, Kessel\n14. Oktober 2019 - heute\n\n"
        "- Built <table> for 3 & more\n  - Nested\n\n"
        "- Kept latency <5 ms for AT&T, List<T>, `<br>` and https://x.example\n- Led 4 people\n\n"
        "- Skill: Years\n- SQL | PL: 5\n\n2019 - 2021 | Analyst\n\n```\n<ul>\n```\n"
    )
    assert read.notes == (
        "front matter left out: title, author",
        "tables converted to lines of text: 1",
        "pictures left out: 1",
        "comments left out: 1",
    )


def test_data_of_pictures_ids_and_escapes_of_an_export_are_left_out() -> None:
    data = "data:image/png;base64," + "iVBORw0KGgo/+Aa" * 20_000
    text = (
        f"# **Ida Falk** {{#ida-falk}}\n\n![][photo]\n\nC\\# \\| R\\&D, 2019 \\- 2023 `a\\-b`\n\n"
        f"- Ran it ![me]({data})\n- Led <img src='{data}'> two\n- Cut ida\\_falk@x.example\n"
        f"\\- no bullet\n\n![logo](logo.png)\n\n[photo]: <{data}>\n"
    )
    read = convert("Markdown", text.encode(), True)
    assert read["text"] == (
        "# **Ida Falk**\n\n\n\nC# | R&D, 2019 - 2023 `a\\-b`\n\n- Ran it \n- Led two\n"
        "- Cut ida_falk@x.example\n\\- no bullet\n\n![logo](logo.png)\n"
    )
    assert read["notes"] == ["pictures left out: 3", "heading ids left out: 1"]


@pytest.mark.parametrize(
    "text",
    [
        "---\nName: Jane Roe\n\n## Jobs\n\n- Led the team\n\n---\n\n- More\n",
        "---\nName: Jane Roe\nLed the team\n---\n",
        "---\nName: Jane Roe\n\n- Led the team\n---\n",
    ],
)
def test_front_matter_holds_no_content(text: str) -> None:
    for kind in ("Markdown", "plain text"):
        read = convert(kind, text.encode(), True)
        assert {"Jane", "Led"} <= {*read["text"].split()}


@pytest.mark.parametrize("end", ["\r\n", *LINE_ENDS])
def test_every_line_end_of_unicode_ends_a_line(end: str) -> None:
    text = end.join(["# Jane Roe", "", "- Built it", "- Led it"])
    assert (
        convert("Markdown", text.encode(), True)["text"] == "# Jane Roe\n\n- Built it\n- Led it\n"
    )


def test_texts_are_composed_and_keep_their_joiners(tmp_path: Path) -> None:
    kept = "- می\u200cخواهم 👩\u200d💻\n"
    odd = f"# A\u00a0b\n\n- Cafe\u0301 co\u00adop, 12\u202f000 zero\u200bwidth\n{kept}"
    text = f"# A b\n\n- Café coop, 12 000 zerowidth\n{kept}"
    for name, outline in (("a.md", True), ("a.txt", False)):
        assert read_document(put(tmp_path, name, odd), outline=outline).text == text


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("# Luc\n\n- Participation à la création\n- Responsable de la file\n", False),
        ("# דנה לוי\n\n- עזרה בבניית דוח שבועי ל-12 חנויות\n", False),
        ("# Rosa de la Cruz\n\nLas Vegas\n\n- Led the team of San José\n", True),
    ],
)
def test_another_language_is_noted(text: str, english: bool) -> None:
    notes = convert("Markdown", text.encode(), True)["notes"]
    assert any("not fit for the rubric judge" in note for note in notes) != english


@pytest.mark.parametrize(
    "text",
    [
        "- Kept a<b && c>d, p<i in 9 and q>2, and <s to >t",
        "- Used vector<a>, Option<B>, Vec<u>, <em dash> and <hr manager>",
        "- Wrote a parser for <script> tags that cut XSS, <title> and <code>",
        "<!-- open\n\n- Built it\n- Led it",
    ],
)
def test_what_is_no_tag_stays(text: str) -> None:
    assert convert("Markdown", f"# Jane Roe\n\n{text}\n".encode(), True)["text"].endswith(
        text + "\n"
    )
    tags = (
        '- H<sub>2</sub>O 10<sup>6</sup> 1<sup>st</sup> &copyright; <b class="x">now</b><br/>, '
        "<span style='a > b'>open <script>x</script>"
    )
    text = convert("Markdown", tags.encode(), True)["text"]
    assert text == "- H2O 10^6 1st &copyright; now , open\n"
    kept = "# A\n\n<pre>\n## Jobs\nAcme  2019\n- Built\n- Led\n</pre>\n"
    assert convert("Markdown", kept.encode(), True)["text"] == (
        "# A\n\n## Jobs\n\nAcme 2019\n\n- Built\n- Led\n"
    )


def test_cells_keep_their_places_and_none_is_lost() -> None:
    table = "|  | Jan | Feb |\n|---|---|---|\n| A | 1 | |\n| | 2 | 3 | x \\| y |\n"
    assert convert("Markdown", table.encode(), True)["text"] == (
        "| Jan | Feb\n\nA | 1\n\n| 2 | 3 | x | y\n"
    )
    table = "| A | B |\n|---|---|\n| 1 <!-- x --> | <img src=x> 2 |\n"
    notes = convert("Markdown", table.encode(), True)["notes"]
    assert {*notes[1:]} == {"comments left out: 1", "pictures left out: 1"}
    table = "<table>\n<tr>\n<th></th>\n<th>Jan</th></tr><tr><td>A<td>1</table>\n"
    assert convert("Markdown", table.encode(), True)["text"] == "| Jan\n\nA | 1\n"


@pytest.mark.parametrize(
    ("line", "shown", "note"),
    [
        ("- Led ~~ten~~ two teams", "- Led two teams", "struck-through characters left out: 3"),
        ("- Led <s>ten</s> two teams", "- Led two teams", "struck-through characters left out: 3"),
        ("- ~~Ran the mill~~", "", "struck-through characters left out: 12"),
        ("- <del>Ran</del>", "", "struck-through characters left out: 3"),
        ("- Ran <i hidden>x</i><b style='display: none'>yz</b> it", "- Ran it",
         "hidden characters left out: 3"),
        ("<div hidden><div>ab</div>cd</div>\n\n- Ran it", "- Ran it",
         "hidden characters left out: 4"),
        ("- Ran <b style='overflow: hidden'>it</b>", "- Ran it", ""),
        ("- Ran <b class='is hidden'>it</b>", "- Ran it", ""),
        ("- Ran `a ~~b~~ c` for ~~~ and ~5~ cooks", "- Ran `a ~~b~~ c` for ~~~ and ~5~ cooks", ""),
    ],
)  # fmt: skip
def test_struck_through_and_hidden_text_is_left_out_and_counted(
    line: str, shown: str, note: str
) -> None:
    found = convert("Markdown", f"# Ann Lee\n\n{line}\n\n- Kept it\n".encode(), True)
    assert " ".join(found["text"].split()) == " ".join(f"# Ann Lee {shown} - Kept it".split())
    assert [one for one in found["notes"] if "left out" in one] == [note] * bool(note)
