"""PDF files, made by reportlab and by a browser; what a reader does not see is left out."""

import io
from typing import Any

import pytest
from components import chromium
from document_files import column, pdf, read
from PIL import Image
from playwright.sync_api import sync_playwright
from reportlab.lib.styles import ParagraphStyle
from reportlab.pdfgen import canvas
from reportlab.platypus import Paragraph, SimpleDocTemplate

from resume_gym.corpus.recognition import link

Page = list[tuple[float, float, str, str, float]]


ONE_COLUMN = [
    *column(72, 720, ["# Maria Lindqvist", "Gothenburg | maria@example.com | +46 31 700 50 00"]),
    *column(72, 670, ["! EXPERIENCE", "! Senior SRE, Nordic Freight"]),
    *column(72, 646, ["• Cut paging by 62% over two quarters by deleting symp-", "   toms"]),
    *column(72, 622, ["• Helped with on-call", "", "! SRE, Harbour Bank", "• Wrote modules"]),
    *column(470, 658, ["2020 - Present"]),
    *column(470, 600, ["2016 - 2020"]),
]


def test_pdf_in_one_column() -> None:
    second = column(72, 720, ["! SKILLS", "Languages: Go, Python", "Platforms: AWS"])
    number = [(300, 40, f"Page {n} of 2", "Helvetica", 8.0) for n in (1, 2)]
    text, notes = read("PDF", pdf([*ONE_COLUMN, number[0]], [*second, number[1]]))
    assert text == (
        "# Maria Lindqvist\n\nGothenburg | maria@example.com | +46 31 700 50 00\n\n"
        "## Experience\n\n### Senior SRE, Nordic Freight\n\n2020 - Present\n\n"
        "- Cut paging by 62% over two quarters by deleting symptoms\n"
        "- Helped with on-call\n\n### SRE, Harbour Bank\n\n2016 - 2020\n\n- Wrote modules\n\n"
        "## Skills\n\n- Languages: Go, Python\n- Platforms: AWS\n"
    )
    assert notes == ["lines of repeated page headers and footers left out: 2"]


def test_only_what_repeats_at_one_height_is_a_header_or_footer() -> None:
    def page(number: int, top: float, *rows: str) -> Page:
        head = (300.0, 770.0, "Ida Falk, CV", "Helvetica", 8.0)
        return [head, *column(72, top, [*rows]), (300, 30, f"{number}", "Helvetica", 8.0)]

    text, notes = read(
        "PDF",
        pdf(
            page(1, 720, "! EXPERIENCE", "", "Miller", "Olm Mills, 2019 - 2021", "- Ran it"),
            page(2, 708, "Miller", "Inn, 2016 - 2018", "- Led it", "", "Poster"),
            page(3, 696, "Talk", "", "! EDUCATION", "BSc, Lund", "", "2016"),
        ),
    )
    assert text.count("Miller") == 2
    assert text.count("Ida Falk, CV") == 1
    assert text.endswith("Poster\n\nTalk\n\n## Education\n\nBSc, Lund\n\n2016\n")
    assert notes == ["lines of repeated page headers and footers left out: 5"]


def drawn(paint: Any) -> bytes:
    """A PDF of one page with a name, drawn by a function of the canvas."""
    file = io.BytesIO()
    paper = canvas.Canvas(file, pagesize=(612, 792))
    paper.setFont("Helvetica", 20)
    paper.drawString(72, 720, "Ida Falk")
    paper.setFont("Helvetica", 10)
    paint(paper)
    paper.save()
    return file.getvalue()


def test_links_of_words_and_icons_are_kept() -> None:
    def paint(paper: Any) -> None:
        paper.drawString(72, 700, "Lund | Code | Mail | x.example/me")
        for x, address in (
            (97, "https://x.example/code"),
            (128, "mailto:ida@x.example"),
            (152, "https://x.example/me"),
            (400, "https://x.example/icon"),
        ):
            paper.linkURL(address, (x, 698, x + 22, 710))

    assert read("PDF", drawn(paint))[0] == (
        "# Ida Falk\n\nLund | [Code](https://x.example/code) | [Mail](ida@x.example) | "
        "x.example/me | https://x.example/icon\n"
    )


def test_what_a_reader_of_the_page_does_not_see_is_left_out_and_counted() -> None:
    def paint(paper: Any) -> None:
        paper.drawString(72, 900, "above the page")
        paper.drawString(72, 640, "seen")
        paper.setFillGray(0.2)
        paper.rect(70, 600, 200, 20, stroke=0, fill=1)
        paper.setFillGray(1)
        paper.drawString(72, 605, "white on grey")
        paper.drawString(72, 580, "white")
        paper.setFillGray(0)
        text = paper.beginText(72, 560)
        text.setTextRenderMode(3)
        text.textOut("unpainted")
        paper.drawText(text)
        paper.setFont("Helvetica", 1)
        paper.drawString(72, 540, "tiny")

    assert read("PDF", drawn(paint)) == (
        "# Ida Falk\n\nseen | white on grey\n",
        ["invisible characters left out: 30"],
    )


def test_recognised_text_of_a_scanned_page_is_kept() -> None:
    def paint(paper: Any) -> None:
        paper.drawInlineImage(Image.new("RGB", (9, 9)), 0, 0, 612, 792)
        text = paper.beginText(72, 560)
        text.setTextRenderMode(3)
        text.textOut("recognised")
        paper.drawText(text)

    assert read("PDF", drawn(paint)) == (
        "# Ida Falk\n\nrecognised\n",
        ["pictures left out: 1"],
    )


def test_wrapped_words_are_joined_and_become_no_headings() -> None:
    style = ParagraphStyle("body", fontSize=10, leading=12)
    bold = ParagraphStyle("bold", style, fontName="Helvetica-Bold", spaceBefore=12)
    words = "and moved the nightly jobs of the warehouse to a scheduler in twelve regions with "
    rows = [
        ("Ida Falk", ParagraphStyle("name", fontSize=20, leading=24)),
        ("EXPERIENCE", bold),
        ("Senior Engineer for the Grain Elevators and Silos of the Northern Region, Miller and "
         "Daughters of Olm", bold),
        (f"• Ran the mill {words}TERRAFORM Languages", style),
        (f"• Led the crew {words}Airflow, Kubernetes and Postgres for nine", style),
        ("• Cut costs", style),
    ]  # fmt: skip
    file = io.BytesIO()
    SimpleDocTemplate(file).build([Paragraph(*row) for row in rows])
    assert read("PDF", file.getvalue())[0] == (
        "# Ida Falk\n\n## Experience\n\nSenior Engineer for the Grain Elevators and Silos of the "
        "Northern Region, Miller and Daughters of Olm\n\n"
        f"- Ran the mill {words}TERRAFORM Languages\n"
        f"- Led the crew {words}Airflow, Kubernetes and Postgres for nine\n- Cut costs\n"
    )


def test_two_entries_with_dates_are_two() -> None:
    rows = ["# Ida Falk", "! EDUCATION", "! BSc, Lund 2012 - 2015", "! MSc, Olm 2015 - 2017"]
    text, _ = read("PDF", pdf(column(72, 720, rows)))
    assert text.endswith("### BSc, Lund\n\n2012 - 2015\n\n### MSc, Olm\n\n2015 - 2017\n")


def test_spaced_out_letters_of_a_name_and_a_heading() -> None:
    rows = ["# I D A   F A L K", "", "! S K I L L S", "Rye"]
    assert read("PDF", pdf(column(72, 720, rows)))[0] == "# Ida Falk\n\n## Skills\n\nRye\n"


def test_form_fields_are_counted() -> None:
    def paint(paper: Any) -> None:
        paper.acroForm.textfield(name="f", value="shown", x=50, y=50)

    assert "form fields and text comments left out: 1" in read("PDF", drawn(paint))[1]


def test_pdf_in_two_columns() -> None:
    left = "! CONTACT;tomas@example.com;Lisbon;;! SKILLS;Figma;User research;HTML"
    right = (
        "! EXPERIENCE;! Senior Designer, Azulejo Labs;2019 - Present;"
        "• Redesigned the checkout used by 40,000-60,000 shoppers;  a day;• Drew;"
    )
    name = column(50, 740, ["# Tomás Ferreira", "Product Designer"])
    page = [*name, *column(50, 680, left.split(";")), *column(220, 680, right.split(";"))]
    text, notes = read("PDF", pdf(page))
    assert text == (
        "# Tomás Ferreira\n\nProduct Designer\n\n## Contact\n\ntomas@example.com\n\nLisbon\n\n"
        "## Skills\n\n- Figma\n- User research\n- HTML\n\n"
        "## Experience\n\n### Senior Designer, Azulejo Labs\n\n2019 - Present\n\n"
        "- Redesigned the checkout used by 40,000-60,000 shoppers a day\n- Drew\n"
    )
    assert notes == ["pages whose two columns are read one after the other: 1"]


def test_pdf_with_dates_in_a_column_is_read_row_by_row() -> None:
    names = [f"Engineer, Company {letter}" for letter in "ABCDEFGH"]
    years = [f"{2010 + n} - {2011 + n}" for n in range(8)]
    page = [*column(50, 740, ["# Ada Moreno"]), *column(50, 700, ["! EDUCATION"])]
    page += [*column(50, 680, years), *column(150, 680, names)]
    text = read("PDF", pdf(page))[0]
    for name, year in zip(names, years, strict=True):
        assert f"{year} | {name}" in text


PRINTED = """\
<style>main { display: grid; grid-template-columns: 30% 1fr; gap: 24px }</style><h1>Ada Moreno</h1>
<main><div><h2>Skills</h2><ul><li>Python<li>SQL and dbt<li>Airflow<li>Terraform<li>Kubernetes<li>Go
</ul></div><div><h2>Experience</h2><h3>Data Engineer, Ferry Lines</h3><p>2020 – Present</p>
<ul><li>Built a booking pipeline for 12 harbours that moves 5 million rows a night and replaced
a sheet<li>Cut costs by 38%</ul></div></main>"""


@pytest.mark.browser
def test_pdf_printed_by_a_browser() -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium())
        tab = browser.new_page()
        tab.set_content(PRINTED)
        data = tab.pdf(margin=dict.fromkeys(("top", "bottom", "left", "right"), "2cm"))
        browser.close()
    assert read("PDF", data)[0] == (
        "# Ada Moreno\n\n"
        "## Skills\n\n- Python\n- SQL and dbt\n- Airflow\n- Terraform\n- Kubernetes\n- Go\n\n"
        "## Experience\n\n### Data Engineer, Ferry Lines\n\n2020 – Present\n\n"
        "- Built a booking pipeline for 12 harbours that moves 5 million rows a night and replaced"
        " a sheet\n- Cut costs by 38%\n"
    )


def test_pdf_spells_out_ligatures() -> None:
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.ttfonts import TTFont

    pdfmetrics.registerFont(TTFont("Vera", "Vera.ttf"))  # comes with reportlab
    lines = ((700.0, "Ada Moreno"), (660.0, "She ﬁles traﬁc ﬂows by hand."), (640.0, "No ﬃ here."))
    rows = [(72.0, y, text, "Vera", 10.0) for y, text in lines]
    found, notes = read("PDF", pdf(rows))
    assert "She files trafic flows by hand." in found
    # Vera has no ﬃ
    assert notes == ["characters that the file's fonts do not map to text: 1"]


def test_raised_figures_of_a_pdf_are_exponents() -> None:
    rows = [(72.0, 700.0, "Served 10", "Courier", 10.0), (126.0, 704.0, "6", "Courier", 6.0)]
    assert read("PDF", pdf(rows))[0] == "Served 10^6\n"


def test_a_page_without_text_is_noted() -> None:
    assert read("PDF", pdf(ONE_COLUMN, []))[1] == ["no text on page 2; run OCR first"]


@pytest.mark.parametrize(
    ("text", "linked"),
    [
        ("study)", "[study](https://x.example))"),
        ("Code (fork)", "[Code (fork)](https://x.example)"),
        ("here. ", "[here](https://x.example). "),
        ("x.example", "x.example"),
        (".", "."),
    ],
)
def test_punctuation_stays_outside_links(text: str, linked: str) -> None:
    assert link(text, "https://x.example") == linked
