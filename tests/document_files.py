"""Documents for the tests of the readers, each made by the package that writes its format."""

import io
import zipfile
from pathlib import Path
from typing import Any

import docx
from reportlab.pdfgen import canvas

from resume_gym.corpus.readers import convert

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

### Globex Inc.

Data Analyst | 2016 - 2019

* Helped with ETL in Python 3.11 and Node.js
* Responsible for ASP.NET site

## Skills

- Languages: SQL, Python, R
- Tools: Tableau, dbt
"""


def put(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(kind: str, data: bytes | str) -> tuple[str, list[str]]:
    """The Markdown of a document, and the notes except for the last, which says to check it."""
    found = convert(kind, data.encode() if isinstance(data, str) else data, True)
    *notes, last = found["notes"]
    assert last == "its structure was inferred: check the Markdown"
    return found["text"], notes


def pdf(*pages: list[tuple[float, float, str, str, float]], **options: Any) -> bytes:
    """A PDF with pages of (x, y, text, font, size)."""
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


def word_file() -> bytes:
    file = docx.Document()
    head = file.sections[0].header.paragraphs[0]
    head.text = "Jo Bell\tjo@example.com\t+1 415-555-2671"
    footer = file.sections[0].footer
    footer.paragraphs[0].text = "Page 1 of 1"
    footer.add_paragraph("Available from May")
    file.add_heading("Experience", 1)
    job = file.add_paragraph()
    job.add_run("Data Engineer, Ferry Lines\tJan 2020 – Present").bold = True
    file.add_paragraph("Lisbon")
    bullet = file.add_paragraph("Built a booking pipeline of ﬁles, see ", style="List Bullet")
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


def word_with(before: bytes, after: bytes) -> bytes:
    """The Word file with other XML in its body."""
    data = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(word_file())) as old, zipfile.ZipFile(data, "w", 8) as new:
        for name in old.namelist():
            part = old.read(name)
            body = name == "word/document.xml"
            new.writestr(name, part.replace(before, after) if body else part)
    return data.getvalue()
