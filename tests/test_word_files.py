"""Word files, made by python-docx; what Word does not show is left out and counted."""

import docx
import pytest
from document_files import read, saved, word_file, word_with

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


@pytest.mark.parametrize("style", ["Title", "Heading 1", "Normal"])
def test_a_name_is_recognised_in_any_style(style: str) -> None:
    file = docx.Document()
    file.add_paragraph("JO BELL", style=style)
    file.add_heading("Experience", 1)
    file.add_heading("Engineer, Acme", 2)
    assert read("Word", saved(file))[0] == "# JO BELL\n\n## Experience\n\n### Engineer, Acme\n"


def test_word() -> None:
    text, notes = read("Word", word_file())
    assert text == (
        "# Jo Bell\n\njo@example.com | +1 415-555-2671\n\n## Experience\n\n"
        "### Data Engineer, Ferry Lines\n\nJan 2020 – Present | Lisbon\n\n"
        "- Built a booking pipeline of files, see [the talk](https://example.org/talk)\n"
        "  - Nested\n\n"
        "### Analyst, Harbour Bank\n\n2016 - 2019\n\n- Helped with audits\n\n"
        "## Skills\n\n- Languages: Python, SQL\n- Tools: dbt\n\n"
        "## Education\n\nBSc Mathematics, Lisbon, 2015\n\n"
        "Available from May\n"
    )
    assert notes == ["footer moved to the end", "page numbers left out: 1"]


def run(text: str, properties: str = "") -> str:
    return f"<w:r {W}><w:rPr>{properties}</w:rPr><w:t>{text}</w:t></w:r>"


def test_what_word_does_not_show_is_left_out_and_counted() -> None:
    file = docx.Document()
    hidden = file.styles.add_style("Aside", docx.enum.style.WD_STYLE_TYPE.CHARACTER)
    hidden.font.hidden = True
    file.add_paragraph("Ida Falk", style="Title")
    paragraph = file.add_paragraph("Ran the mill")
    paragraph.add_run(" and left in anger", style="Aside")
    for xml in (
        run("salary", "<w:vanish/>"),
        run(" of rye", '<w:vanish w:val="0"/>'),
        run("ten mills", "<w:strike/>"),
        f"<w:del {W}><w:r><w:delText>crates</w:delText></w:r></w:del>",
        f"<w:ins {W}>{run(' by night')}</w:ins>",
        run(" 9 stars", '<w:color w:val="FFFFFF"/>'),
    ):
        paragraph._p.append(docx.oxml.parse_xml(xml))
    empty = file.add_paragraph("• ")
    prompt = f"<w:sdt {W}><w:sdtPr><w:showingPlcHdr/></w:sdtPr><w:sdtContent>{run('Tell it')}"
    empty._p.append(docx.oxml.parse_xml(f"{prompt}</w:sdtContent></w:sdt>"))
    filled = f"<w:sdt {W}><w:sdtContent>{run('Certificates: none')}</w:sdtContent></w:sdt>"
    file.add_paragraph()._p.append(docx.oxml.parse_xml(filled))
    text, notes = read("Word", saved(file))
    assert text == "# Ida Falk\n\nRan the mill of rye by night 9 stars\n\nCertificates: none\n"
    assert notes == [
        "white characters, which may be invisible, kept: 8",
        "hidden characters left out: 24",
        "struck-through characters left out: 9",
        "deleted characters left out: 6",
        "empty template fields left out: 1",
    ]


def test_styles_strike_text_through_and_pass_it_on() -> None:
    file = docx.Document()
    kinds = docx.enum.style.WD_STYLE_TYPE
    struck = file.styles.add_style("Struck", kinds.CHARACTER)
    struck.font.strike = True
    for name in ("Heir", "Kept"):
        file.styles.add_style(name, kinds.CHARACTER).base_style = struck
    file.styles["Kept"].font.strike = False
    paragraph = file.add_paragraph("Ran the mill")
    for name in ("Struck", "Heir", "Kept"):
        paragraph.add_run(f" of {name}", style=name)
    text, notes = read("Word", saved(file))
    assert text == "# Ran the mill of Kept\n"
    assert "struck-through characters left out: 18" in notes


def test_a_document_in_a_document_is_counted() -> None:
    chunk = (
        '<w:altChunk xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
        ' r:id="rId99"/>'
    )
    _, notes = read("Word", word_with(b"<w:body>", f"<w:body>{chunk}".encode()))
    assert "embedded documents left out: 1" in notes


def table(*cells: str) -> str:
    """The Markdown of a table row in a section; a line feed starts a paragraph in a cell."""
    file = docx.Document()
    file.add_heading("Skills" if cells[0][0] == "L" else "Experience", 1)
    for cell, text in zip(file.add_table(1, len(cells)).rows[0].cells, cells, strict=True):
        cell.text, *others = text.split("\n")
        for other in others:
            cell.add_paragraph(other)
    return read("Word", saved(file))[0].partition("\n\n")[2]


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        (("Languages\nCloud", "Go, C\nAWS"), "- Languages: Go, C\n- Cloud: AWS\n"),
        (("Languages:\nCloud:", "Go\nC\nAWS"), "- Languages:\n- Cloud:\n- Go\n- C\n- AWS\n"),
        (
            ("2019 - 2023", "Miller, Olm Mills\nRan it for 9 shops\nCut the waste"),
            "### Miller, Olm Mills\n\n2019 - 2023\n\nRan it for 9 shops\n\nCut the waste\n",
        ),
        (("Miller", "Olm Mills", "2019 - 2023"), "Miller | Olm Mills | 2019 - 2023\n"),
    ],
)
def test_cells_of_a_table_stay_together_only_where_they_pair(
    row: tuple[str, ...], shown: str
) -> None:
    assert table(*row) == shown


def test_a_table_for_the_layout_of_two_columns() -> None:
    file = docx.Document()
    file.add_paragraph("Jo Bell", style="Title")
    left, right = file.add_table(1, 2).rows[0].cells
    left.paragraphs[0].add_run("SKILLS").bold = True
    left.add_paragraph("Python", style="List Bullet")
    right.paragraphs[0].add_run("EXPERIENCE").bold = True
    right.add_paragraph().add_run("Engineer, Acme").bold = True
    right.add_paragraph("Built it", style="List Bullet")
    assert read("Word", saved(file))[0] == (
        "# Jo Bell\n\n## Skills\n\n- Python\n\n## Experience\n\n### Engineer, Acme\n\n- Built it\n"
    )


def test_a_text_box_is_a_paragraph_and_is_read_once() -> None:
    names = (
        f'{W} xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
        'xmlns:v="urn:schemas-microsoft-com:vml"'
    )
    box = f"<w:txbxContent><w:p>{run('In a box')}</w:p></w:txbxContent>"
    file = docx.Document()
    file.add_paragraph("Jo Bell", style="Title")
    file.add_paragraph("Moves crates")._p.append(
        docx.oxml.parse_xml(
            f"<w:r {names}><mc:AlternateContent><mc:Choice>{box}</mc:Choice><mc:Fallback>"
            f"<v:textbox>{box}</v:textbox></mc:Fallback></mc:AlternateContent></w:r>"
        )
    )
    assert read("Word", saved(file)) == ("# Jo Bell\n\nMoves crates | In a box\n", [])


def test_text_that_mammoth_leaves_out_is_counted() -> None:
    math = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
    lost = f"<w:p {math}><m:oMath><m:r><m:t>E=mc2</m:t></m:r></m:oMath></w:p>"
    _, notes = read("Word", word_with(b"<w:body>", f"<w:body>{lost}".encode()))
    assert "characters, for example in formulas or fields, left out: 5" in notes


def test_words_on_both_sides_of_a_break_of_word_stay_apart() -> None:
    breaks = (b"<w:cr/>", b'<w:br w:type="page"/>', b'<w:ptab w:alignment="right"/>')
    runs = b"".join(b"<w:r><w:t>one</w:t>" + one + b"<w:t>two</w:t></w:r>" for one in breaks)
    raised = b'<w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:t>6</w:t></w:r>'
    text = b"<w:body><w:p><w:r><w:t>Made 10</w:t></w:r>" + raised + runs + b"</w:p>"
    found, _ = read("Word", word_with(b"<w:body>", text))
    assert "| Made 10^6one | twoone | twoone | two\n" in found
