"""Resumes in five formats, each made here by the package that writes it."""

import io
import os
import re
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import docx
import pytest
from components import chromium
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import sync_playwright
from reportlab.pdfgen import canvas

from resume_gym.corpus import sandbox
from resume_gym.corpus.document_error import DocumentError
from resume_gym.corpus.documents import read_document
from resume_gym.corpus.outline import LINE_ENDS, write_markdown
from resume_gym.corpus.plain_text import text_rows
from resume_gym.corpus.readers import convert
from resume_gym.corpus.sandbox import Limits, read_apart
from resume_gym.text.lines import parse

TEXT = """\
JANE Q. PUBLIC
Springfield, IL 62701   (217) 555-2368   jane@example.com
linkedin.com/in/janeq | github.com/janeq

PROFESSIONAL SUMMARY
--------------------
Data analyst with 6 years of experience in retail and logistics; comfortable with
SQL, Python and the people who ask the questions.

WORK EXPERIENCE

Senior Data Analyst, Acme Corp                              Jan 2020 - Present
Springfield, IL
 • Built dashboards used by 10,000-20,000 users across
   four regions
 • Worked on reports
     o Weekly
     o Monthly

Globex Inc.
Data Analyst (2016 - 2019)
* Helped with ETL in Python 3.11 and Node.js
* Responsible for
  ASP.NET site

EDUCATION
BSc Statistics, Illinois State University, 2016
MSc Data Science, University of Somewhere, 2018

SKILLS:
Languages: SQL, Python, R
Tools: Tableau, dbt
"""
MARKDOWN = """\
# JANE Q. PUBLIC

Springfield, IL 62701 | (217) 555-2368 | jane@example.com | linkedin.com/in/janeq \
| github.com/janeq

## Professional Summary

Data analyst with 6 years of experience in retail and logistics; comfortable with SQL, Python \
and the people who ask the questions.

## Work Experience

### Senior Data Analyst, Acme Corp

Jan 2020 - Present | Springfield, IL

- Built dashboards used by 10,000-20,000 users across four regions
- Worked on reports
  - Weekly
  - Monthly

### Globex Inc., Data Analyst

2016 - 2019

* Helped with ETL in Python 3.11 and Node.js
* Responsible for ASP.NET site

## Education

BSc Statistics, Illinois State University, 2016

MSc Data Science, University of Somewhere, 2018

## Skills

- Languages: SQL, Python, R
- Tools: Tableau, dbt
"""


def put(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def pdf(*pages: list[tuple[float, float, str, str, float]], **options: Any) -> bytes:
    """Pages of (x, y, text, font, size)."""
    file = io.BytesIO()
    paper = canvas.Canvas(file, pagesize=(612, 792), **options)
    for page in pages:
        for x, y, text, font, size in page:
            paper.setFont(font, size)
            paper.drawString(x, y, text)
        paper.showPage()
    paper.save()
    return file.getvalue()


def column(x: float, y: float, rows: list[str]) -> list[tuple[float, float, str, str, float]]:
    """Rows below each other: "# " in large type, "! " in bold, "" a gap."""
    placed = []
    for row in rows:
        mark, text = (row[:2], row[2:]) if row[:2] in ("# ", "! ") else ("", row)
        font = "Helvetica-Bold" if mark else "Helvetica"
        placed.append((x, y, text, font, {"# ": 20.0}.get(mark, 10.0)))
        y -= 24 if mark == "# " else 12 if row else 10
    return [one for one in placed if one[2]]


def words(text: str) -> list[str]:
    return sorted(re.findall(r"\w+", text.lower()))


def test_plain_text_becomes_the_markdown_of_the_environment(tmp_path: Path) -> None:
    assert read_document(put(tmp_path, "jane.txt", TEXT)).text == MARKDOWN
    crlf = put(tmp_path, "crlf.txt", b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())
    assert read_document(crlf).text == MARKDOWN
    utf16 = put(tmp_path, "utf16.txt", TEXT.encode("utf-16"))
    assert read_document(utf16).text == MARKDOWN


def test_markdown_of_the_environment_and_jobs_in_plain_text_are_unchanged(tmp_path: Path) -> None:
    for name in ("jane.md", "jane.txt"):
        assert read_document(put(tmp_path, name, MARKDOWN.replace("\n", "\r\n"))).text == MARKDOWN
    job = "DATA ANALYST\n\nYou have\n  • SQL\n"
    assert read_document(put(tmp_path, "job.txt", job), outline=False).text == job


@pytest.mark.parametrize("style", ["Title", "Heading 1", "Normal"])
def test_a_name_is_recognised_in_any_style(style: str) -> None:
    file = docx.Document()
    file.add_paragraph("JO BELL", style=style)
    file.add_heading("Experience", 1)
    file.add_heading("Engineer, Acme", 2)
    text = convert("Word", saved(file), True)["text"]
    assert text == "# JO BELL\n\n## Experience\n\n### Engineer, Acme\n"


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


def test_front_matter_of_plain_text_is_not_the_name() -> None:
    text = b"---\ntitle: x\n---\nSam Hill\n\nEXPERIENCE\n- Led the team\n"
    read = convert("plain text", text, True)
    assert read["text"] == "# Sam Hill\n\n## Experience\n\n- Led the team\n"
    assert read["notes"] == ["front matter left out: title"]


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
    "dates",
    [
        "14. Oktober 2019 - 3. Mai 2021", "seit 3. März 2020", "Depuis janvier 2019",
        "enero de 2019 - actualidad", "2019 - היום", "10. 2019 - 5. 2021", "2019 –",
        "until Dec 2019", "12. March 2020 to date", "listopad 2019 - obecnie",
        "01.02.2019-31.12.2020",
    ],
)  # fmt: skip
def test_dates_of_other_languages_are_no_list(dates: str) -> None:
    rows = text_rows(f"Carla Moreno\n\nBERUFSERFAHRUNG\n\nAnalystin, Kessel\n{dates}\n- Baute 14\n")
    job = f"### Analystin, Kessel\n\n{dates}\n\n- Baute 14\n"
    assert write_markdown(rows) == f"# Carla Moreno\n\n## Berufserfahrung\n\n{job}"
    assert [line.kind for line in parse(f"# Carla\n\n## X\n\n{dates}\n1. Led 2019\n")][2:] == [
        "entry",
        "bullet",
    ]


@pytest.mark.parametrize(
    ("text", "english"),
    [
        (
            "# Luc\n\n- Participation à la création de 14 rapports\n- Responsable de la file\n",
            False,
        ),
        ("# דנה לוי\n\n- עזרה בבניית דוח שבועי ל-12 חנויות\n", False),
        ("# Carla\n\n## Berufserfahrung\n\n- Betreute 14 Filialen\n", False),
        ("# Rosa de la Cruz\n\nLas Vegas\n\n- Led the team of San José\n", True),
        ("# Ada\n\n- Built pipelines, cut costs\n", True),
    ],
)
def test_another_language_is_noted(text: str, english: bool) -> None:
    notes = convert("Markdown", text.encode(), True)["notes"]
    assert any("not fit for the rubric judge" in note for note in notes) != english


def word_file() -> bytes:
    file = docx.Document()
    head = file.sections[0].header.paragraphs[0]
    head.text = "Jo Bell\tjo@example.com\t+1 415-555-2671"
    file.sections[0].footer.paragraphs[0].text = "Page 1 of 1"
    file.add_heading("Experience", 1)
    job = file.add_paragraph()
    job.add_run("Data Engineer, Ferry Lines\tJan 2020 – Present").bold = True
    file.add_paragraph("Lisbon")
    bullet = file.add_paragraph("Built a ", style="List Bullet")
    bullet.add_run("booking").bold = True
    bullet.add_run(" pipeline of ﬁles, see ")
    link(bullet, "the talk", "https://example.org/talk")
    file.add_paragraph("Nested", style="List Bullet 2")
    table = file.add_table(1, 2)
    table.cell(0, 0).text = "2016 - 2019"
    table.cell(0, 1).text = "Analyst, Harbour Bank"
    table.cell(0, 1).add_paragraph("Helped with audits", style="List Bullet")
    file.add_heading("Skills", 1)
    table = file.add_table(2, 2)
    for number, text in enumerate(["Languages", "Python, SQL", "Tools", "dbt"]):
        table.cell(number // 2, number % 2).text = text
    file.add_paragraph().add_run("EDUCATION").bold = True
    file.add_paragraph("BSc Mathematics, Lisbon, 2015")
    return saved(file)


def link(paragraph: Any, text: str, address: str) -> None:
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/hyperlink"
    number = paragraph.part.relate_to(address, kind, is_external=True)
    element = docx.oxml.OxmlElement("w:hyperlink")
    element.set(docx.oxml.ns.qn("r:id"), number)
    run = paragraph.add_run(text)._r
    element.append(run)
    paragraph._p.append(element)


def saved(file: Any) -> bytes:
    data = io.BytesIO()
    file.save(data)
    return data.getvalue()


def test_word(tmp_path: Path) -> None:
    read = read_document(put(tmp_path, "jo.docx", word_file()))
    assert read.text == (
        "# Jo Bell\n\njo@example.com | +1 415-555-2671\n\n## Experience\n\n"
        "### Data Engineer, Ferry Lines\n\nJan 2020 – Present | Lisbon\n\n"
        "- Built a booking pipeline of files, see [the talk](https://example.org/talk)\n"
        "  - Nested\n\n"
        "### Analyst, Harbour Bank\n\n2016 - 2019\n\n- Helped with audits\n\n"
        "## Skills\n\n- Languages: Python, SQL\n- Tools: dbt\n\n"
        "## Education\n\nBSc Mathematics, Lisbon, 2015\n"
    )
    assert read.notes == ()


def test_word_headers_and_footers(tmp_path: Path) -> None:
    file = docx.Document()
    section = file.sections[0]
    cells = section.header.add_table(1, 2, docx.shared.Inches(6)).rows[0].cells
    cells[0].text, cells[1].text = "Jo Bell", "jo@example.com"
    section.footer.paragraphs[0].text = "Available from May"
    file.add_heading("Experience", 1)
    file.add_paragraph("Built it", style="List Bullet")
    read = read_document(put(tmp_path, "jo.docx", saved(file)))
    assert read.text == (
        "# Jo Bell\n\njo@example.com\n\n## Experience\n\n- Built it\n\nAvailable from May\n"
    )
    assert read.notes == ("footer moved to the end",)


def test_word_table_of_two_columns(tmp_path: Path) -> None:
    file = docx.Document()
    file.add_paragraph("Jo Bell", style="Title")
    left, right = file.add_table(1, 2).rows[0].cells
    left.paragraphs[0].add_run("SKILLS").bold = True
    left.add_paragraph("Python", style="List Bullet")
    right.paragraphs[0].add_run("EXPERIENCE").bold = True
    right.add_paragraph().add_run("Engineer, Acme").bold = True
    right.add_paragraph("Built it", style="List Bullet")
    assert read_document(put(tmp_path, "jo.docx", saved(file))).text == (
        "# Jo Bell\n\n## Skills\n\n- Python\n\n## Experience\n\n### Engineer, Acme\n\n- Built it\n"
    )


def test_word_keeps_insertions_and_text_boxes_and_drops_deletions(tmp_path: Path) -> None:
    file = docx.Document()
    file.add_paragraph("Jo Bell", style="Title")
    paragraph = file.add_paragraph("Moves ")
    names = (
        'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
        'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
        'xmlns:v="urn:schemas-microsoft-com:vml"'
    )
    for change in (
        "<w:ins {0}><w:r><w:t>boxes</w:t></w:r></w:ins>",
        "<w:del {0}><w:r><w:delText>crates</w:delText></w:r></w:del>",
        "<w:r {0}><mc:AlternateContent><mc:Fallback><v:textbox><w:txbxContent>"
        "<w:p><w:r><w:t>In a box</w:t></w:r></w:p>"
        "</w:txbxContent></v:textbox></mc:Fallback></mc:AlternateContent></w:r>",
    ):
        paragraph._p.append(docx.oxml.parse_xml(change.format(names)))
    text = read_document(put(tmp_path, "jo.docx", saved(file))).text
    assert words(text) == words("Jo Bell Moves boxes | In a box")
    assert "boxesIn" not in text


@pytest.mark.parametrize(
    "lost",
    [
        b"<m:oMath><m:r><m:t>E=mc2</m:t></m:r></m:oMath>",
        b"<w:r><w:ruby><w:rubyBase><w:r><w:t>E=mc2</w:t></w:r></w:rubyBase></w:ruby></w:r>",
        b'<w:fldSimple w:instr="X"><w:r><w:t>E=mc2</w:t></w:r></w:fldSimple>',
    ],
)
def test_text_that_word_has_and_the_reader_leaves_out_is_noted(lost: bytes) -> None:
    math = b' xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math">'
    change = (b"<w:body>", b"<w:body><w:p" + math + lost + b"</w:p>")
    notes = convert("Word", word_with(change), True)["notes"]
    assert "characters left out, for example in formulas or fields: 5" in notes
    assert not any("formulas" in note for note in convert("Word", word_file(), True)["notes"])


def test_words_on_both_sides_of_a_break_of_word_stay_apart() -> None:
    breaks = (b"<w:cr/>", b'<w:br w:type="page"/>', b'<w:ptab w:alignment="right"/>')
    runs = b"".join(b"<w:r><w:t>one</w:t>" + one + b"<w:t>two</w:t></w:r>" for one in breaks)
    raised = b'<w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:t>6</w:t></w:r>'
    text = b"<w:body><w:p><w:r><w:t>Made 10</w:t></w:r>" + raised + runs + b"</w:p>"
    read = convert("Word", word_with((b"<w:body>", text)), True)["text"]
    assert "| Made 10^6one | twoone | twoone | two\n" in read


def test_a_year_at_the_edge_of_a_page_is_no_page_number() -> None:
    pages = [
        [
            (50.0, 700.0, f"{title} of the year", "Helvetica", 10.0),
            (500.0, 700.0, year, "Helvetica", 10.0),
            (50.0, 600.0, "- Shipped the parser", "Helvetica", 10.0),
            (300.0, 20.0, number, "Helvetica", 10.0),
        ]
        for title, year, number in (("Poster", "2014", "1"), ("Paper", "2016", "2"))
    ]
    text = convert("PDF", pdf(*pages), True)["text"]
    assert "2014" in text
    assert "2016" in text
    assert "\n1\n" not in text


def test_pages_whose_order_is_doubtful_are_noted() -> None:
    three = [
        (x, 700.0 - 12 * row, "few words here", "Helvetica", 10.0)
        for x in (50.0, 230.0, 410.0)
        for row in range(5)
    ]
    file = io.BytesIO()
    paper = canvas.Canvas(file, pagesize=(612, 792))
    paper.rotate(20)
    paper.drawString(300, 300, "Jane Roe")
    paper.acroForm.textfield(name="f", value="shown", x=50, y=50)
    paper.save()
    order = "it has rotated text or more than two columns: check the order of its text"
    assert order in convert("PDF", pdf(three), True)["notes"]
    assert convert("PDF", file.getvalue(), True)["notes"][:2] == [
        order,
        "form fields and text comments left out: 1",
    ]
    assert order not in convert("PDF", pdf(ONE_COLUMN), True)["notes"]


ONE_COLUMN = [
    *column(72, 720, ["# Maria Lindqvist", "Gothenburg | maria@example.com | +46 31 700 50 00"]),
    *column(72, 670, ["! EXPERIENCE", "! Senior SRE, Nordic Freight"]),
    (470, 658, "2020 - Present", "Helvetica", 10),
    *column(
        72,
        646,
        [
            "• Reduced paging by 62% over two quarters by deleting alerts that nobody acted on and",
            "   rewriting the others around user-facing symp-",
            "   toms",
            "• Helped with on-call",
            "",
            "! SRE, Harbour Bank",
        ],
    ),
    (470, 588, "2016 - 2020", "Helvetica", 10),
    *column(72, 576, ["• Worked on Terraform modules for 14 teams"]),
]


def test_pdf_in_one_column(tmp_path: Path) -> None:
    second = column(72, 720, ["! SKILLS", "Languages: Go, Python", "Platforms: AWS"])
    number = [(300, 40, f"Page {n} of 2", "Helvetica", 8.0) for n in (1, 2)]
    data = pdf([*ONE_COLUMN, number[0]], [*second, number[1]])
    read = read_document(put(tmp_path, "maria.pdf", data))
    assert read.text == (
        "# Maria Lindqvist\n\nGothenburg | maria@example.com | +46 31 700 50 00\n\n"
        "## Experience\n\n### Senior SRE, Nordic Freight\n\n2020 - Present\n\n"
        "- Reduced paging by 62% over two quarters by deleting alerts that nobody acted on and "
        "rewriting the others around user-facing symptoms\n- Helped with on-call\n\n"
        "### SRE, Harbour Bank\n\n2016 - 2020\n\n- Worked on Terraform modules for 14 teams\n\n"
        "## Skills\n\n- Languages: Go, Python\n- Platforms: AWS\n"
    )
    assert read.notes == ()


def test_pdf_in_two_columns(tmp_path: Path) -> None:
    left = "! CONTACT;tomas@example.com;Lisbon;;! SKILLS;Figma;User research;HTML;Prototyping"
    right = (
        "! EXPERIENCE;! Senior Designer, Azulejo Labs;2019 - Present;"
        "• Redesigned the checkout used by 40,000-60,000 shoppers;  a day;• Worked on the design;;"
        "! Designer, Studio Tejo;2015 - 2019;• Made wireframes;• Drew"
    )
    page = [
        *column(50, 740, ["# Tomás Ferreira", "Product Designer"]),
        *column(50, 680, left.split(";")),
        *column(220, 680, right.split(";")),
    ]
    text = read_document(put(tmp_path, "tomas.pdf", pdf(page))).text
    assert text.startswith("# Tomás Ferreira\n\nProduct Designer\n\n## Contact\n\n")
    assert "\n## Skills\n\n- Figma\n- User research\n- HTML\n- Prototyping\n\n## Ex" in text
    assert text.endswith(
        "## Experience\n\n### Senior Designer, Azulejo Labs\n\n2019 - Present\n\n"
        "- Redesigned the checkout used by 40,000-60,000 shoppers a day\n- Worked on the design\n\n"
        "### Designer, Studio Tejo\n\n2015 - 2019\n\n- Made wireframes\n- Drew\n"
    )


def test_pdf_with_dates_in_a_column_is_read_row_by_row(tmp_path: Path) -> None:
    names = [f"Engineer, Company {letter}" for letter in "ABCDEFGH"]
    years = [f"{2010 + n} - {2011 + n}" for n in range(8)]
    page = [*column(50, 740, ["# Ada Moreno"]), *column(50, 700, ["! EDUCATION"])]
    page += [*column(50, 680, years), *column(150, 680, names)]
    text = read_document(put(tmp_path, "ada.pdf", pdf(page))).text
    for name, year in zip(names, years, strict=True):
        assert f"{year} | {name}" in text


def test_pdf_with_drawn_bullets(tmp_path: Path) -> None:
    file = io.BytesIO()
    paper = canvas.Canvas(file, pagesize=(612, 792))
    for x, y, text, font, size in column(72, 720, ["# Ada Moreno", "", "! EXPERIENCE"]):
        paper.setFont(font, size)
        paper.drawString(x, y, text)
    paper.setFont("Helvetica", 10)
    for y, text in ((660, "Built a pipeline"), (648, "for 12 harbours"), (636, "Led it")):
        paper.drawString(90, y, text)
    paper.circle(80, 664, 1.5, stroke=0, fill=1)
    paper.rect(78, 638, 3, 3, stroke=0, fill=1)
    paper.drawString(90, 610, "Rated")
    for x in (70, 75, 80):
        paper.circle(x, 614, 1.5)
    paper.save()
    text = read_document(put(tmp_path, "ada.pdf", file.getvalue())).text
    assert text.endswith("\n\n- Built a pipeline for 12 harbours\n- Led it\n\nRated\n")


SIDEBAR = """\
<h2>Skills</h2><ul><li>Python<li>SQL and dbt<li>Airflow<li>Terraform<li>Kubernetes<li>Go</ul>"""
BODY = """\
<h2>Experience</h2><h3>Data Engineer, Ferry Lines</h3><p>2020 – Present</p>
<ul><li>Built a booking pipeline for 12 harbours that moves 4.5 million rows a night and replaced
three spreadsheets<li>Cut costs by 38%</ul>
<h3>Analyst, Harbour Bank</h3><p>2016 – 2020</p><ul><li>Wrote reports for 14 branches</ul>"""
PRINTED = (
    "## Skills\n\n- Python\n- SQL and dbt\n- Airflow\n- Terraform\n- Kubernetes\n- Go\n",
    "## Experience\n\n### Data Engineer, Ferry Lines\n\n2020 – Present\n\n"
    "- Built a booking pipeline for 12 harbours that moves 4.5 million rows a night and replaced "
    "three spreadsheets\n- Cut costs by 38%\n\n"
    "### Analyst, Harbour Bank\n\n2016 – 2020\n\n- Wrote reports for 14 branches\n",
)


@pytest.mark.browser
@pytest.mark.parametrize("columns", ["100%", "30% 1fr"])
def test_pdf_printed_by_a_browser(tmp_path: Path, columns: str) -> None:
    style = f"<style>main {{ display: grid; grid-template-columns: {columns}; gap: 24px }}</style>"
    page = f"{style}<h1>Ada Moreno</h1><main><div>{SIDEBAR}</div><div>{BODY}</div></main>"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium())
        tab = browser.new_page()
        tab.set_content(page)
        data = tab.pdf(margin=dict.fromkeys(("top", "bottom", "left", "right"), "2cm"))
        browser.close()
    text = read_document(put(tmp_path, "ada.pdf", data)).text
    assert text == "# Ada Moreno\n\n" + "\n".join(PRINTED)


def test_pdf_spells_out_ligatures(tmp_path: Path) -> None:
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.ttfonts import TTFont

    pdfmetrics.registerFont(TTFont("Vera", "Vera.ttf"))  # comes with reportlab
    lines = ((700.0, "Ada Moreno"), (660.0, "She ﬁles traﬁc ﬂows by hand."), (640.0, "No ﬃ here."))
    rows = [(72.0, y, text, "Vera", 10.0) for y, text in lines]
    read = read_document(put(tmp_path, "ada.pdf", pdf(rows)))
    assert "She files trafic flows by hand." in read.text
    # Vera has no ﬃ
    assert read.notes == ("characters that the file's fonts do not map to text: 1",)


def test_raised_figures_of_a_pdf_are_exponents() -> None:
    rows = [(72.0, 700.0, "Served 10", "Courier", 10.0), (126.0, 704.0, "6", "Courier", 6.0)]
    assert convert("PDF", pdf(rows), True)["text"] == "Served 10^6\n"


def test_a_page_without_text_is_noted(tmp_path: Path) -> None:
    read = read_document(put(tmp_path, "ada.pdf", pdf(ONE_COLUMN, [])))
    assert read.notes == ("no text on page 2; run OCR first",)


def word_with(*changes: tuple[bytes, bytes]) -> bytes:
    """The Word file with other XML."""
    data = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(word_file())) as old, zipfile.ZipFile(data, "w", 8) as new:
        for name in old.namelist():
            part = old.read(name)
            for before, after in changes if name == "word/document.xml" else ():
                part = part.replace(before, after)
            new.writestr(name, part)
    return data.getvalue()


def objects(*bodies: bytes, to_unicode: bytes = b"") -> bytes:
    """A PDF of one page: its content, and forms of which each is drawn by the one before."""
    font = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/ToUnicode 5 0 R>>"
    streams = [to_unicode, *bodies]
    parts = [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>"]
    parts.append(b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 6 0 R/Resources<<")
    parts[-1] += b"/Font<</F 4 0 R>>/XObject<</X 7 0 R>>>>>>"
    parts.append(font)
    for number, body in enumerate(streams, start=5):
        form = b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</Font<</F 4 0 R>>/XObject<</X "
        form += b"%d 0 R>>>>/Length %d" % (number + 1, len(body))
        filtered = b"/Filter/FlateDecode" * body.startswith(b"x")
        parts.append(b"<<%s%s>>stream\n%s\nendstream" % (form, filtered, body))
    file, places = b"%PDF-1.7\n", []
    for number, part in enumerate(parts, start=1):
        places.append(len(file))
        file += b"%d 0 obj\n%s\nendobj\n" % (number, part)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(parts) + 1, table)
    end += b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF"
    return file + end % (len(parts) + 1, len(file))


RANGE = b"begincmap 1 beginbfrange <00000000> <7fffffff> <0041> endbfrange endcmap"
LINE = b"BT /F 10 Tf (hi) Tj ET"


@pytest.mark.parametrize(
    ("data", "limit"),
    [
        (objects(*[b"/X Do " * 10] * 9, LINE), "1 s of CPU time"),
        (objects(LINE, to_unicode=RANGE), "1 s of CPU time|800 MB of memory"),
        (objects(zlib.compress(bytes(900_000_000), 9)), "1 s of CPU time|800 MB of memory"),
    ],
)
def test_a_pdf_that_needs_too_much_is_refused_by_its_limit(data: bytes, limit: str) -> None:
    room = Limits(memory_mb=800, cpu_s=1)
    with pytest.raises(DocumentError, match=f"reading it exceeds (?:{limit})"):
        read_apart("PDF", data, True, room)


LOCKED_WORD = b"\xd0\xcf\x11\xe0" + bytes(20) + "EncryptedPackage".encode("utf-16-le")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.txt", b"", "it is empty"),
        ("a.md", b" \n\t\n", "it is empty"),
        ("a.txt", b"Ada\nCaf\xe9\n", r"not in UTF-8 \(byte 0xe9 in line 2\); save it as UTF-8"),
        ("a.md", b"Ada\x00Moreno", "its extension says Markdown, but its content is binary"),
        ("a.txt", b"%PDF-1.7\n", "its extension says plain text, but its content is PDF"),
        ("a.pdf", b"# Ada", "its extension says PDF, but its content is text"),
        ("a.docx", b"{\\rtf1 Ada}", "its extension says Word, but its content is RTF"),
        ("a.docx", b"PK\x03\x04 nothing of the kind", "its content is a ZIP archive"),
        ("a.docx", b"PK\x03\x04 word/document.xml", "it is damaged"),
        ("a.docx", b"\xd0\xcf\x11\xe0 old", r"old format \(.doc\); save it as .docx"),
        ("a.docx", LOCKED_WORD, "protected by a password"),
        (
            "a.docx",
            lambda: word_with((b">Lisbon<", b">" + b"a" * 9_000_000 + b"<")),
            "bytes of XML",
        ),
        (
            "a.docx",
            lambda: word_with((b"<w:body>", b'<w:body x="' + b"a" * 9_000_000 + b'">')),
            "at most 5,000,000 bytes of XML, got 9,",
        ),
        (
            "a.docx",
            lambda: word_with(
                (b"<w:document", b'<!DOCTYPE x [<!ENTITY e "hi">]><w:document'), (b"Lisbon", b"&e;")
            ),
            "it has a DOCTYPE declaration",
        ),
        ("a.doc", b"Ada", "expected Markdown .*; got .doc; save it as .docx"),
        (
            "a.json",
            b"{}",
            r"expected Markdown \(.md\), plain text \(.txt\), PDF .* or Word .*; got .json",
        ),
        ("ada", b"Ada", "got no extension"),
        ("a.pdf", b"a" * 20_000_001, "expected at most 20,000,000 bytes, got 20,000,001"),
        ("a.txt", b"a b\n" * 250_000, "expected at most 800,000 bytes, got 1,000,000"),
        ("a.txt", b"a b\n" * 60_000, "expected at most 200,000 characters"),
        ("a.pdf", b"%PDF-1.7\nbroken", "it is damaged"),
        ("a.pdf", lambda: pdf([]), "there is no text in it; run OCR first"),
        ("a.pdf", lambda: pdf(ONE_COLUMN, encrypt="secret"), "protected by a password"),
        ("a.pdf", lambda: pdf(*[ONE_COLUMN] * 51), "expected at most 50 pages, got 51"),
        ("a.docx", lambda: saved(docx.Document()), "there is no text in it"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, content: Any, says: str) -> None:
    data = content() if callable(content) else content
    with pytest.raises(DocumentError, match=says):
        read_document(put(tmp_path, name, data))


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="No such file"):
        read_document(tmp_path / "a.md")
    (tmp_path / "b.md").mkdir()
    with pytest.raises(DocumentError, match="it is a folder; pass the files in it"):
        read_document(tmp_path / "b.md")
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "zero.md").symlink_to("/dev/zero")
    for name in ("pipe.md", "zero.md"):
        with pytest.raises(DocumentError, match="expected a regular file, got a device, pipe"):
            read_document(tmp_path / name)


def test_reading_goes_on_after_a_reader_that_ended(tmp_path: Path) -> None:
    file = put(tmp_path, "a.md", "# Ada\n")
    assert read_document(file).text == "# Ada\n"
    assert sandbox._server
    sandbox._server[1].kill()
    with suppress(DocumentError):  # it may not have ended yet
        read_document(file)
    assert read_document(file).text == "# Ada\n"


@pytest.mark.parametrize(
    "text",
    ["a" * 80_000 + "\nb", "x\n" + "ab-\n" * 45_000, "a" + " " * 180_000 + "b", "a-\nb\n" * 30_000],
    ids=["word", "hyphens", "blanks", "lines"],
)
def test_long_runs_of_plain_text_are_read_in_linear_time(text: str, tmp_path: Path) -> None:
    """Searches that start at each character would exceed the reader's limit of CPU time."""
    read = read_document(put(tmp_path, "long.txt", text)).text
    assert 0 < len(read) <= len(text) + 8


@pytest.mark.parametrize(("kind", "package"), [("Word", "mammoth"), ("PDF", "pdfplumber")])
def test_a_missing_package_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, kind: str, package: str
) -> None:
    data = word_file() if kind == "Word" else pdf(ONE_COLUMN)
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install resume-gym\[data\]"):
        convert(kind, data, True)


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
    assert convert("Markdown", table.encode(), True)["notes"][1:] == [
        "comments left out: 1",
        "pictures left out: 1",
    ]
    table = "<table>\n<tr>\n<th></th>\n<th>Jan</th></tr><tr><td>A<td>1</table>\n"
    assert convert("Markdown", table.encode(), True)["text"] == "| Jan\n\nA | 1\n"
