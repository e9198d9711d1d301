"""What masking replaces, what it leaves, and what it says of both."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resume_gym import load_tasks
from resume_gym.corpus.masking import FIELDS, Masker
from resume_gym.corpus.names import fold

RESUME = """\
# Lars Leclerc

12 Elm Tree Road, Seattle | lars.leclerc@gmail.com | (206) 555-0103 | +49 30 901820 | \
www.lars.dev/cv | lars-leclerc.dev | linkedin.com/in/lars | [GitHub](https://github.com/lars)

## Experience

### Engineer, Leclerc & Sons

- Lars served 10,000-20,000 users, see github.com/lars
- Reported to Mary Poppins and Dr. Who; sold to Booking.com

## References

- Jane Doe, CTO at Acme, [mail](mailto:jane@acme.com), tel. 030 1234567
- Available on request
"""


def masked(text: str, *fields: str, region: str = "US") -> str:
    return Masker(1, RESUME, fields or FIELDS, region).mask(text, "a")


def page(head: str, body: str, contact: str = "sunshine99@mail.example | Lisbon") -> str:
    """A resume with contact details that do not tell the name."""
    return f"{head}\n\n{contact}\n\n## Experience\n\n### Data Engineer, Acme\n\n- {body}\n"


def named(resume: str, **contacts: str) -> bool:
    return Masker(1, resume, ["names"], contacts=contacts.items()).named


def test_a_resume_and_its_evidence_get_the_same_placeholders() -> None:
    masker = Masker(7, RESUME, FIELDS)
    assert masker.mask(RESUME, "resume") == (
        "# Candidate 0007\n\n"
        "12 Elm Tree Road, Seattle | candidate0007@example.com | 555-0107 | 555-0108 | "
        "https://example.com/1 | https://example.com/2 | https://example.com/3 | "
        "[GitHub](https://example.com/4)\n\n"
        "## Experience\n\n### Engineer, Leclerc & Sons\n\n"
        "- Lars served 10,000-20,000 users, see https://example.com/4\n"
        "- Reported to Mary Poppins and Dr. Who; sold to Booking.com\n\n"
        "## References\n\n"
        "- Jane Doe, CTO at Acme, [mail](mailto:candidate0007.2@example.com), tel. 555-0109\n"
        "- Available on request\n"
    )
    paper = (
        "Leclerc, Lars told Jane: call 206-555-0103 or LARS.LECLERC@gmail.com. LARS LECLERC won."
    )
    assert masker.mask(paper, "notes") == (
        "Candidate 0007 told Jane: call 555-0107 or candidate0007@example.com. Candidate 0007 won."
    )
    assert masker.replaced == {
        "resume": {"names": 1, "mail": 2, "phone": 3, "links": 5},
        "notes": {"names": 2, "mail": 1, "phone": 1, "links": 0},
    }
    assert masker.left["resume"] == {
        "possible other people": 3,
        "street addresses": 1,
        "possible web addresses": 1,
        "parts of the name": 2,
    }
    assert masker.named


def test_masking_again_changes_nothing() -> None:
    once = masked(RESUME)
    again = Masker(1, once, FIELDS)
    assert again.mask(once, "a") == once


def test_what_is_not_asked_for_stays_and_is_counted() -> None:
    masker = Masker(1, RESUME, ["mail"])
    text = masker.mask(RESUME, "a")
    assert text == RESUME.replace("lars.leclerc@gmail.com", "candidate0001@example.com").replace(
        "jane@acme.com", "candidate0001.2@example.com"
    )
    counts = {field: masker.left["a"][field] for field in FIELDS}
    assert counts == {"names": 1, "mail": 0, "phone": 3, "links": 5}


@pytest.mark.parametrize(
    "text",
    [
        "led 5 teams, 9 in place; AWS 2019, SOC 2, RTX 3090, born leader; Mentoring 4, 250 000 000",
        "grew from 10,000-20,000 users to 1,200,345,678 requests, 99.999% of them in 3.5M-4.5M",
        "2016-2019, 2019 - 2021, 06/2019 - 05/2021, 2015 2016 2017, May 2020, 2020-01-31",
        "Python 3.11, Node.js, Vue.js, ASP.NET, ASP.NET/C#, socket.io, .NET 8, e.g. this",
        "ISO 27001:2013, RFC 7231, 192.168.100.200, v10.12.2345, C++17, $4155552671, #4155552671",
        "processed 4155552671 events; CI/CD, and/or, TCP/IP, km/h, 24/7, A/B",
        "the largest larsson of them; a leclercian view",
        "1000 2000 rows, 555-page report, order 2345-6789",
        "Sold to Booking.com, Amazon.com and crates.io",
    ],
)
def test_figures_and_tools_are_left(text: str) -> None:
    body = f"# Lars Leclerc\n\n## Experience\n\n- {text}\n"
    masker = Masker(1, RESUME, FIELDS)
    assert masker.mask(body, "a") == body.replace("Lars Leclerc", "Candidate 0001")
    assert not {*PERSONAL} & {*masker.left["a"]}


@pytest.mark.parametrize(
    ("text", "field", "new"),
    [
        ("tel: 415 555 2671", "phone", "tel: 555-0101"),
        ("call +1 (415) 555-2671.", "phone", "call 555-0101."),
        ("415.555.2671 or 415-555-2671", "phone", "555-0101 or 555-0101"),
        ("415‒555‒2671 or 415—555—2671", "phone", "555-0101 or 555-0101"),
        ("(https://x.dev/a), www.x.dev", "links", "(https://example.com/1), https://example.com/2"),
        ("http://www.X.dev/a/ x.dev/a", "links", "https://example.com/1 https://example.com/1"),
        ("LinkedIn.com/in/lars.", "links", "https://example.com/1."),
        ("https://medium.com/@lars.leclerc", "mail", "https://medium.com/@lars.leclerc"),
        ("https://medium.com/@lars.leclerc", "links", "https://example.com/1"),
        (
            "[a@b.io](mailto:A@b.io)",
            "mail",
            "[candidate0001@example.com](mailto:candidate0001@example.com)",
        ),
    ],
)
def test_forms(text: str, field: str, new: str) -> None:
    assert masked(f"## Notes\n\n{text}", field) == f"## Notes\n\n{new}"


def test_national_numbers_need_their_region() -> None:
    text = "## Contact\n\nBüro 030 901820"
    assert masked(text, "phone", region="DE") == "## Contact\n\nBüro 555-0101"
    assert masked(text, "phone") == text
    amount = "## Work\n\n- Cut costs from 30.500.000 to 2.500.000 Euro"
    assert masked(amount, "phone", region="DE") == amount


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Paul Morgan", "J.P. Morgan, Morgan Stanley, JPMorgan Chase; St. Paul; Paul's, Morgan"),
        ("Jane Morgan", "J.P. Morgan, J. P. Morgan"),
        ("Paul Stanley Morgan", "Morgan Stanley"),
        ("Jane Ford", "Ford Motor, A Ford, Ford Ford"),
        ("Hans Müller", "Müller GmbH"),
        ("Ruby Chase", "Ruby on Rails, Ruby and Python, a Chase Bank client; A Ruby, Chase"),
        ("Max Power", "Power BI, Power Automate, Max load, max power, Cut power, Power M"),
        ("An Nguyen", "An hour saved, A Nguyen test; An ETL"),
        ("May Baker", "May 2020, May 5, 12 Bakers"),
        ("Jane Doe", "J.D., J. D., JD"),
    ],
)
def test_parts_of_the_name_are_counted_and_never_masked(name: str, text: str) -> None:
    resume = page(f"# {name}", text)
    masker = Masker(1, resume, ["names"])
    assert masker.mask(resume, "a") == resume.replace(name, "Candidate 0001", 1)
    assert masker.doubtful
    left = masker.left["a"]
    assert left["parts of the name"] or left["initials of the name"] == 3


def test_names_in_markup() -> None:
    text = "**Lars** Leclerc, _Lars Leclerc_, Lars Q. Leclerc's, lars.leclerc, LarsLeclerc, x"
    assert masked(text, "names") == (
        "**Candidate 0001, _Candidate 0001_, Candidate 0001's, Candidate 0001, Candidate 0001, x"
    )


@pytest.mark.parametrize(
    ("head", "body", "masked_as"),
    [
        ("# Resume\n\n## Jane Doe", "Jane Doe won", "# Resume\n\n## @|@ won"),
        ("# Curriculum Vitae\n\nJane Doe | Oslo", "Jane Doe", "# Curriculum Vitae\n\n@ | Oslo|@"),
        ("# Professional Resume\n\n**Jane Doe**", "Doe, Jane", "# Professional Resume\n\n**@**|@"),
        ("# Resume of Jane Doe", "JANE DOE", "# Resume of @|@"),
        ("# Jane Doe's CV", "jane doe", "# @'s CV|@"),
        ("## Jane Doe", "Jane Doe", "## @|@"),
        (
            "# Jane Doe – Data Engineer",
            "Data Engineer Jane Doe",
            "# @ – Data Engineer|Data Engineer @",
        ),
        ("# Jane Doe | Data Engineer", "Engineer", "# @ | Data Engineer|Engineer"),
        ("# Jane Doe, Data Engineer", "Engineer", "# @, Data Engineer|Engineer"),
        ("# Jane Doe Data Engineer", "Data, J. Doe", "# @ Data Engineer|Data, @"),
        ("# Dr. Jean-Luc O. d'Arc, PhD", "Jean-Luc d'Arc has a PhD", "# Dr. @, PhD|@ has a PhD"),
        ("# Jane Doe (she/her)", "She, J. Doe", "# @ (she/her)|She, @"),
        ("# Jane Doe, PhD, CISSP", "CISSP, J. Doe", "# @, PhD, CISSP|CISSP, @"),
        ("# Müller, Hans", "Hans Muller; H. Mueller; HANS MÜLLER", "# @|@; @; @"),
        ("# DOE, JANE", "Jane Doe", "# @|@"),
        ("# Jean-Luc d'Arc", "Jean Luc d'Arc, J.-L. d'Arc; d'Arc, Luc", "# @|@, @; @"),
        ("# Jane O'Neill", "J. O’Neill; JaneONeill", "# @|@; @"),
        ("# José García", "Jose Garcia; Jose\u0301 García led", "# @|@; @ led"),
        ("# jane doe", "jane doe, J. Doe, J.Doe, Doe J., doe", "# @|@, @, @, @, doe"),
        ("# Name: Jane Doe", "DoeJane", "# Name: @|@"),
        ("# Jane\tRoe", "Jane\nRoe led", "# @|@ led"),
        ('# Jane "JJ" Roe', "Jane Roe; Roe", '# @ "@" @|@; Roe'),
        ("# will young", "young teams will, Will Young", "# @|young teams will, @"),
        ("# JANE MCDONALD", "Jane McDonald", "# @|@"),
        ("# 李明", "李明 led", "# @|@ led"),
        ("# Summer May", "Summer 2020, S. May led", "# @|Summer 2020, @ led"),
    ],
)
def test_the_name_is_found_in_the_head(head: str, body: str, masked_as: str) -> None:
    resume = page(head, body)
    masker = Masker(1, resume, ["names"])
    top, bullet = masked_as.replace("@", "Candidate 0001").rsplit("|", 1)
    assert masker.mask(resume, "a") == resume.replace(head, top).replace(f"- {body}", f"- {bullet}")
    assert masker.named


@pytest.mark.parametrize(
    "head",
    [
        "",
        "# Resume",
        "# Experience",
        "# 12 34",
        "# Welcome",
        "# Portfolio\n\nJane Roe",
        "# Hi, I'm Jane Roe 👋",
        "# Jane's Resume",
        "# Portfolio of Jane Roe",
        # places
        "# New York",
        "# San Francisco Bay Area",
        "South Africa",
        "# Berlin, Germany",
        # sections and jobs
        "# Personal Information",
        "# Resume\n\n## Work Experience",
        "# Data Engineer",
        "# Executive Chef",
        # employers and other lines
        "Kessel GmbH",
        "# Kessel GmbH",
        "- Ada Moreno",
        "# García López, María",
        "# Jane Doe Rust Wizard Extraordinaire",
    ],
)
def test_a_heading_that_may_be_no_name_is_left_and_said(head: str) -> None:
    resume = page(head, "Built Data pipelines for New York")
    masker = Masker(1, resume, ["names"])
    assert masker.mask(resume, "a") == resume
    assert masker.doubtful
    assert masker.notes[0] == "no name was recognised: check the text for names"


def test_a_name_needs_contact_details_or_a_clue() -> None:
    assert not named("# Green Field\n\n## Experience\n\n- Built it, me@mail.example\n")
    assert named("Green Field\nLisbon\n(206) 555-0103\n\nEXPERIENCE\n")
    assert named("# Green Field\n\n## Experience\n", names="cv-green-field")
    assert named("# Resume of Green Field\n\n## Experience\n")
    assert not named(page("# Green Field", "Built it", "ada.moreno@mail.example"))
    # also where it may be a place or a job
    for name, mail in (("George West", "g.west"), ("Anthony Head", "ahead"), ("Li Na", "li.na")):
        assert named(page(f"# {name}", "Built it", f"{mail}@mail.example"))


PERSONAL = {
    "street addresses": [
        "221B Baker Street", "1600 Pennsylvania Ave NW", "350 5th Ave", "P.O. Box 123",
        "Lange Straße 5a", "Hauptstr. 12", "12 bis rue de la Paix", "Calle Mayor 12", "ul. Długa 5",
        "Keizersgracht 123", "Storgatan 5",
    ],
    "postcodes": [
        "London NW1 6XE", "Toronto, ON M5V 2T6", "Springfield, IL 62701", "10115 Berlin",
        "A-1010 Wien", "Sydney NSW 2000", "1015 CJ Amsterdam", "114 55 Stockholm", "ZIP: 1234",
        "São Paulo 01310-100",
    ],
    "ID-like numbers": [
        "Passport No. 123456789", "Passport: C01X00T47", "SSN 123-45-6789", "Tax ID 12-3456789",
        "NI number QQ 12 34 56 C", "DNI 12345678Z", "Steuer-ID: 12 345 678 901",
        "CPF 123.456.789-09", "DE89 3704 0044 0532 0130 00", "4111 1111 1111 1111",
        "RSSMRA85T10A562S",
    ],
    "dates of birth": [
        "Date of birth: 1 Jan 1990", "DOB 01/01/1990", "born in Oslo, 1990", "geb. 12.03.1985",
        "* 12.03.1985", "12 March 1985", "March 12, 1985", "1985-03-12", "Né le 3 mai 1988",
    ],
}  # fmt: skip


@pytest.mark.parametrize(("what", "text"), [(a, b) for a, texts in PERSONAL.items() for b in texts])
def test_what_looks_personal_is_left_and_named(what: str, text: str) -> None:
    resume = page("# Jane Doe", "Built it", f"jane@mail.example | {text}")
    masker = Masker(1, resume, FIELDS)
    assert text in masker.mask(resume, "a")
    assert masker.left["a"] == {what: 1}
    assert f"may be personal, but was not masked: {what}: 1" in masker.notes


@pytest.mark.parametrize(
    ("fields", "region", "says"),
    [(["age"], "US", "expected names, mail, phone, links or all; got 'age'"),
     (["phone"], "Mars", "expected a two-letter country code such as US or DE; got 'Mars'")],
)  # fmt: skip
def test_bad_options(fields: list[str], region: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        Masker(1, RESUME, fields, region)


@given(st.text(max_size=200), st.sampled_from(FIELDS))
def test_any_text_can_be_masked(text: str, field: str) -> None:
    Masker(1, text, [field]).mask(text, "a")


def test_known_contacts_are_masked_in_any_form() -> None:
    contacts = [("phone", "0171 2345678"), ("links", "https://ada.dev"), ("links", "adamoreno1")]
    resume = "# Ada Moreno\n\n0171 2345678 | https://ada.dev | Mastodon: adamoreno1\n\n## Jobs\n"
    masker = Masker(1, resume, FIELDS, contacts=[*contacts, ("links", "ada")])
    assert masker.mask(resume, "a") == (
        "# Candidate 0001\n\n555-0101 | https://example.com/1 | Mastodon: https://example.com/2\n\n"
        "## Jobs\n"
    )
    assert masker.mask("ring (0171) 234-5678, ada", "b") == "ring 555-0101, ada"


def test_accounts_of_networks_are_links() -> None:
    text = (
        "# Jane Doe\n\nLinkedIn: /in/jane-doe | GitHub: janed | skype: johndoe99\n\n## Skills\n\n"
    )
    body = "- GitHub: Actions, reviews\n- see JaneDoe.com\n- skype: johndoe99\n"
    masked_text = Masker(1, text, ["links"]).mask(text + body, "a")
    assert len(re.findall(r"https://example\.com/\d", masked_text)) == 5
    assert len({*re.findall(r"https://example\.com/\d", masked_text)}) == 4
    assert "- GitHub: Actions, reviews\n" in masked_text
    assert not re.search("jane-doe|janed|johndoe|JaneDoe", masked_text)


def test_accounts_without_a_colon_are_links() -> None:
    accounts = "Github lions | kaggle/lions7 | LinkedIn (bo-l) | GitHub Actions | bo.li@x.org"
    head = f"# Bo Li\n\n{accounts}\n\n## Skills\n\n"
    body = "- GitHub actions, medium sized, skype lions9\n- Boliden\n"
    masker = Masker(1, head + body, FIELDS)
    link = "https://example.com"
    assert masker.mask(head + body, "a") == (
        f"# Candidate 0001\n\nGithub {link}/1 | kaggle/{link}/2 | LinkedIn ({link}/3) | "
        "GitHub Actions | candidate0001@example.com\n\n"
        f"## Skills\n\n- GitHub actions, medium sized, skype {link}/4\n- Boliden\n"
    )
    assert masker.left["a"] == {"parts of the name inside longer words": 1}


def test_numbers_are_masked_in_full_width_and_beside_letters_of_japanese() -> None:
    phones = "ＴＥＬ：０３－１２３４－５６７８ | 電話03-1234-5679 | 03·1234·5670"
    text = f"# Jane Roe\n\n{phones}\n\n## Jobs\n"
    masker = Masker(1, text, ["phone"], "JP", exact=True)
    assert masker.mask(text, "a") == (
        "# Jane Roe\n\nＴＥＬ：555-0101 | 電話555-0102 | 555-0103\n\n## Jobs\n"
    )
    assert masker.unmask(masker.mask(text, "a")) == text


def test_one_character_is_not_expanded_to_a_phrase() -> None:
    assert fold("ﷺé" * 9) == ("ﷺe" * 9, [*range(19)])


def test_digits_that_stay_are_counted_as_possible_phones() -> None:
    text = "# Jane Doe\n\n(020) 7946 0958 | 2016 - 2019\n\n## Jobs\n\n- ring 2175550199 now\n"
    masker = Masker(1, text, FIELDS)
    assert "2175550199" in masker.mask(text, "a")
    assert masker.left["a"]["possible phone numbers"] == 2


def test_bundled_resumes_lose_only_names_and_contacts() -> None:
    for number, task in enumerate(load_tasks("mini", "eval"), start=1):
        text = Masker(number, task.resume, FIELDS).mask(task.resume, "a")
        old, new = (one.split("\n") for one in (task.resume, text))
        assert new[0] == f"# Candidate {number:04}"
        parts = task.persona["name"].split()
        for before, after in zip(old[3:], new[3:], strict=True):
            assert before == after or any(part in before for part in parts)


@pytest.mark.parametrize(
    "mail",
    ["ada[at]mail", "ada (at) mail (dot) com", "ada at mail dot com", "ADA@MAIL.COM",
     "ada @ mail.com", "ａｄａ＠ｍａｉｌ．ｃｏｍ", "𝐚𝐝𝐚@mail.com", "ada{at}mail.com",
     "ada.moreno [AT] mail [DOT] co [DOT] uk"],
)  # fmt: skip
def test_mail_addresses_are_masked_in_written_forms(mail: str) -> None:
    text = f"## Notes\n\nwrite to {mail}, or look at it\n"
    assert masked(text, "mail") == text.replace(mail, "candidate0001@example.com")


@pytest.mark.parametrize(
    "form",
    ["ADA MORENO", "ada moreno", "AdaMoreno", "adamoreno", "AdaMoreno1990", "MorenoAda",
     "ada_moreno", "Moreno, A.", "A. Moreno", "Ada\u200dMoreno", "A\u200cda Moreno", "Moreno-Ada"],
)  # fmt: skip
def test_names_are_masked_in_capitals_joined_and_with_joiners(form: str) -> None:
    resume = page("# Ada Moreno", f"With {form} in 2020")
    assert Masker(1, resume, ["names"]).mask(resume, "a") == (
        page("# Candidate 0001", "With Candidate 0001 in 2020")
    )


def test_what_is_left_and_what_was_not_found_is_said() -> None:
    text = (
        "# Ada Moreno\n\n030 5550101 | Tel.: 0171 2345678\n\n## Jobs\n\n- Met morenos, @Override\n"
    )
    masker = Masker(1, text, FIELDS)
    assert "| Tel.: 555-0101\n" in masker.mask(text, "a")
    assert masker.left["a"] == {
        "possible phone numbers": 1,
        "handles": 1,
        "parts of the name inside longer words": 1,
    }
    assert masker.not_found == ["mail", "links"]
    assert masker.doubtful
    assert "not valid in US; --phone-region selects another country" in masker.notes[-1]
    german = Masker(1, text, FIELDS, "DE")
    german.mask(text, "a")
    assert not german.doubtful


@given(
    st.lists(
        st.sampled_from(
            ["Lars", "Lars Leclerc", "L. LECLERC", "lars.leclerc@gmail.com", "a [at] b", "555-0101",
             "(206) 555-0103", "https://example.com/1", "github.com/lars", "Candidate 0001", "x",
             "\n"]
        )
    )
)  # fmt: skip
def test_data_is_put_back_exactly(pieces: list[str]) -> None:
    text = RESUME + " ".join(pieces)
    masker = Masker(1, text, FIELDS, "DE", exact=True)
    assert "lars leclerc" not in masker.mask(text, "a").lower()
    assert masker.unmask(masker.mask(text, "a")) == text


@pytest.mark.parametrize(
    "piece",
    ["ada@example.com ", "030 5550101\n", "Leclerc, L. ", "van ", "a at b dot ", "1 ", "a.b",
     "12 Elm ", "A1", "ID 1", "born ", "L. ", "10115 ", "a", "-", "12-", "a@", "www."],
)  # fmt: skip
def test_long_runs_and_many_matches_are_masked_in_linear_time(piece: str) -> None:
    """Backtracking, or comparing each with each, would take minutes."""
    text = "# Lars van Leclerc\n\nlars@x.org\n\n## X\n\n" + piece * (60_000 // len(piece))
    assert Masker(1, text, FIELDS, "DE").mask(text, "a").startswith("# Candidate 0001\n")
