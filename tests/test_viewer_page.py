"""The viewer's page in Chromium."""

import fcntl
import json
import re
import threading
from contextlib import contextmanager

import pytest
from axe_playwright_python.sync_playwright import Axe
from components import chromium
from playwright.sync_api import expect, sync_playwright
from viewer_runs import (
    EVIL,
    GROUP,
    MIXED,
    RULES,
    STEPS,
    evil_task,
    play,
    read,
    write_evaluation,
    write_mixed_run,
    write_run,
)

from resume_gym import Session
from resume_gym.apps.viewer import html, search
from resume_gym.apps.viewer.listing import open_folder
from resume_gym.apps.viewer.server import serve
from resume_gym.episode.document import wrapped_lines

pytestmark = pytest.mark.browser

PAGES = ("", "episodes", "episode/0", "episode/2", "episode/3", "compare/0/1", "episode/999")
# what the page writes for characters that are not seen
SEEN = EVIL.replace("\u2028", "U+2028").replace("\u202e", "U+202E")


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium())
        yield browser
        browser.close()


@contextmanager
def served(folder):
    with serve(open_folder(folder), 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    # markup in the name of the run, too; a name cannot hold a slash
    return write_run(tmp_path_factory.mktemp("runs") / "<img src=x onerror=window.pwned=4>")


@pytest.fixture(scope="module")
def run(folder):
    with served(folder) as address:
        yield address


@pytest.fixture(scope="module")
def exported(folder, tmp_path_factory):
    results = read(folder)
    file = tmp_path_factory.mktemp("exported") / "run.html"
    html.export(results, file)
    return file.as_uri()


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory):
    with served(write_evaluation(tmp_path_factory.mktemp("evaluations") / "two")) as address:
        yield address


@pytest.fixture(scope="module")
def hostile_agents(tmp_path_factory):
    """An evaluation whose agents and weaknesses have markup for names."""
    folder = write_evaluation(tmp_path_factory.mktemp("evaluations") / "hostile")
    figures, episodes = folder / "evaluation.json", folder / "episodes.jsonl"
    names = {"good": f"good {EVIL}", "bad": f"bad {EVIL}"}
    told = json.loads(figures.read_text())
    for pair in told["comparisons"]:
        pair |= {"first": names[pair["first"]], "second": names[pair["second"]], "method": EVIL}
    told["agents"] = {names[name]: one for name, one in told["agents"].items()}
    figures.write_text(json.dumps(told))
    lines = [json.loads(line) for line in episodes.read_text().splitlines()]
    lines = [{**one, "agent": names[one["agent"]], "weakness": EVIL} for one in lines]
    episodes.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return folder


@pytest.fixture(scope="module")
def agents_exported(hostile_agents, tmp_path_factory):
    results = read(hostile_agents)
    file = tmp_path_factory.mktemp("exported") / "evaluation.html"
    html.export(results, file)
    return file.as_uri()


@pytest.fixture(scope="module")
def listed(folder, tmp_path_factory):
    both = tmp_path_factory.mktemp("listed")
    write_run(both / folder.name)
    write_evaluation(both / "two", agents={EVIL: 0, f"bad {EVIL}": 1})
    with served(both) as address:
        yield address


@pytest.fixture
def page(browser):
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.faults = []
    page.on("pageerror", lambda error: page.faults.append(str(error)))
    page.on("console", lambda told: page.faults.append(told.text))
    page.on("dialog", lambda dialog: page.faults.append(dialog.message))
    yield page
    context.close()


def show(page, address, path):
    page.goto(f"{address}#/{path}")
    # the page before stays until this one is there
    page.wait_for_selector(f'main[data-shows="#/{path}"] h1')


def open_all(page):
    closed = page.locator("details:not([open]) > summary")
    while closed.count():
        closed.first.click()


def rows(page):
    return page.locator(".episodes tbody tr")


# --- what others wrote --------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["run", "agents_exported"])
def test_markup_in_texts_is_text(page, request, how):
    address = request.getfixturevalue(how)
    for path in PAGES:
        show(page, address, path)
        open_all(page)
        assert page.evaluate("window.pwned") is None, path
        assert page.locator("main img, main script, main iframe, main object").count() == 0, path
        assert page.locator("script:not([type])").count() == 1, path
        if path != "episode/999":
            assert SEEN in page.locator("body").text_content(), path
    assert page.faults == []


def test_markup_in_an_address_is_no_markup(page, run):
    for path in (
        "episodes?task=<img src=x onerror=window.pwned=5>&sort=<svg onload=window.pwned=6>&page=x",
        "episode/<img src=x onerror=window.pwned=7>",
        "<img src=x onerror=window.pwned=8>",
    ):
        page.goto(f"{run}#/{path}")
        page.wait_for_selector("main[data-shows] h1")
        page.reload()
        page.wait_for_selector("main[data-shows] h1")
        assert page.locator("main img").count() == 0
        assert page.evaluate("window.pwned") is None
    assert page.faults == []


def test_the_policy_stops_what_would_slip_through(page, run):
    show(page, run, "")
    page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.pwned = 5";
            document.body.append(script);
            const image = document.createElement("img");
            image.setAttribute("onerror", "window.pwned = 6");
            image.src = "data:,";
            document.body.append(image);
        }"""
    )
    page.wait_for_timeout(100)
    assert page.evaluate("window.pwned") is None
    assert any("Content Security Policy" in one for one in page.faults)


def test_an_exported_file_asks_the_network_for_nothing(page, exported):
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    for path in PAGES:
        show(page, exported, path)
    assert {url.partition("#")[0] for url in asked} == {exported}
    show(page, exported, "")
    assert "has no records" in page.locator(".note").text_content()


def test_an_episode_that_was_left_out_says_so(page, folder, tmp_path):
    results = read(folder)
    file = tmp_path / "small.html"
    assert html.export(results, file, limit=1) == 8
    show(page, file.as_uri(), "episodes")
    assert rows(page).count() == STEPS * GROUP
    left_out = page.locator("tr", has_text="left out").first
    assert page.locator("tr", has_text="left out").count() == 8
    left_out.locator("a").click()
    expect(page.get_by_role("alert")).to_contain_text("not in the exported file")
    show(page, file.as_uri(), "")
    assert "only table rows of 8 of 12 episodes" in page.locator(".note").text_content()


# --- the pages ----------------------------------------------------------------------------------


def test_curves_are_read_and_lead_to_episodes(page, run):
    show(page, run, "")
    chart = page.locator(".chart", has_text="Reward, and its spread")
    svg, legend = chart.locator("svg[role=img]"), chart.locator(".legend")
    assert svg.locator("circle").count() == 1  # before training, on held-out tasks
    assert "training (band: one standard deviation) 1.50" in legend.text_content()
    assert "from 0.50 to 1.50" in svg.get_attribute("aria-label")
    svg.focus()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("status")).to_contain_text("step 2: training")
    page.keyboard.press("Enter")
    expect(rows(page)).to_have_count(GROUP)
    assert set(page.locator("td.step").all_inner_texts()) == {"2"}


def test_the_page_follows_a_run_and_stays_where_it_is(page, tmp_path):
    folder = write_run(tmp_path / "run")
    page.clock.install()
    with served(folder) as address:
        show(page, address, "")
        add_step(folder, 4)
        page.clock.run_for(3100)
        expect(page.locator(".facts")).to_contain_text("steps 4")
        show(page, address, "episodes")
        rows(page).nth(GROUP).locator("a").focus()
        add_step(folder, 5)
        page.evaluate("getSelection().selectAllChildren(document.querySelector('h1'))")
        page.clock.run_for(3100)
        assert rows(page).count() == 4 * GROUP  # a selection is left alone
        page.evaluate("getSelection().removeAllRanges()")
        page.clock.run_for(3100)
        expect(rows(page)).to_have_count(5 * GROUP)
        assert page.evaluate("index.rows.length") == GROUP  # only what is new was sent
        assert page.evaluate("document.activeElement.getAttribute('href')") == f"#/episode/{GROUP}"
        page.route("**/version.json", lambda route: route.abort())
        page.clock.run_for(3100)
        expect(page.locator("#live")).to_have_text("no answer from the server")


def add_step(folder, step):
    """Play the first step again."""
    with (folder / "metrics.jsonl").open("a") as metrics:
        metrics.write(json.dumps({"step": step, "reward": 1.0}) + "\n")
    steps = folder / "trajectories"
    played = (steps / "step-000001.jsonl").read_bytes()
    (steps / f"step-{step:06d}.jsonl").write_bytes(played)


def test_a_list_of_runs(page, listed, folder):
    show(page, listed, "")
    assert SEEN.removeprefix("<") in page.get_by_role("row", name="two").inner_text()
    assert rows(page).count() == 2
    run = page.get_by_role("row", name=folder.name)
    assert "3" in run.inner_text()
    assert "1.50" in run.inner_text()
    run.get_by_role("link").click()
    page.wait_for_selector("h1:has-text('Run <img')")
    page.get_by_role("link", name="All runs").click()
    page.wait_for_selector("h1:has-text('Runs and')")
    assert page.faults == []
    assert page.evaluate("window.pwned") is None


def test_runs_are_sorted_and_compared(page, tmp_path):
    for name, rate in (("first", 0.1), ("second", 0.2)):
        folder = write_run(tmp_path / name)
        with (folder / "config.toml").open("a") as config:
            config.write(f"learning_rate = {rate}\nsteps = {STEPS}\n")
    write_evaluation(tmp_path / "result")
    (tmp_path / "second" / "after.json").write_text('{"reward": 7.0, "errors": {"reward": 0.5}}')
    with served(tmp_path) as address:
        show(page, address, "")
        page.get_by_role("button", name="held-out reward").click()
        page.get_by_role("button", name="held-out reward").click()
        expect(page.locator("td.name").first).to_have_text("second")
        assert "7.00\xa0±\xa00.50" in rows(page).first.inner_text()
        page.get_by_label("compare second").check()
        assert page.get_by_role("link", name="Compare").count() == 0
        page.get_by_label("compare first").check()
        page.get_by_role("link", name="Compare 2").click()
        legend = page.locator(".chart", has_text="Reward").locator(".legend")
        assert "held-out tasks 7.00\xa0±\xa00.50" in legend.inner_text()
        settings = page.get_by_role("region", name="Settings that differ")
        told = [one.inner_text().split("\t") for one in settings.locator("tbody tr").all()]
        assert settings.locator("thead th").all_inner_texts() == ["second", "first"]
        assert ["learning_rate", "0.2", "0.1"] in told
        assert "steps" not in [name for name, *_ in told]
        assert page.locator(".note").count() == 0
        show(page, address, "runs?run=second&run=result")
        latest = page.get_by_role("region", name="Latest evaluation")
        assert set(latest.locator("thead th").all_inner_texts()) == {
            *("second", "result: good", "result: bad"),
        }
        show(page, address, "runs?run=nowhere")
    assert page.faults == []


def test_every_setting_that_differs_is_listed(page, tmp_path):
    texts = ('judge = {name = "a", k = {deep = 1, same = 3}}\n', 'tag = ""\njudge = "b"\n')
    for name, text in zip(("one", "two"), texts, strict=True):
        config = write_run(tmp_path / name) / "config.toml"
        config.write_text(f'name = "{name}"\nsteps = 3\n{text}')
    write_evaluation(tmp_path / "result")
    with served(tmp_path) as address:
        show(page, address, "runs?run=one&run=two")
        table = page.get_by_role("region", name="Settings that differ")
        told = [one.inner_text().split("\t") for one in table.locator("tbody tr").all()]
        assert sorted(told) == [
            ["judge", "-", "b"],
            ["judge.k.deep", "1", "-"],
            ["judge.k.same", "3", "-"],
            ["judge.name", "a", "-"],
            ["name", "one", "two"],
            ["tag", "-", "(empty)"],
        ]
        # what only the evaluation has is folded
        show(page, address, "runs?run=one&run=two&run=result")
        assert ["name", "one", "two", "-"] in [
            one.inner_text().split("\t") for one in table.locator("tbody tr").all()
        ]
        summary = page.locator("summary", has_text="Settings that only some have")
        only = page.get_by_role("region", name="Settings that only some have")
        expect(only).to_be_hidden()
        summary.focus()
        page.keyboard.press("Enter")
        assert "nowhere.jsonl" in only.locator("tr", has_text="tasks").inner_text()
    assert page.faults == []


def test_compared_runs_have_floors_and_must_have_played_the_same_tasks(page, tmp_path):
    for name, steps in (("one", "1"), ("two", "1"), ("three", "2")):
        folder = write_run(tmp_path / name)
        played = (folder / "trajectories" / f"step-00000{steps}.jsonl").read_bytes()
        (folder / "trajectories" / "eval-000000.jsonl").write_bytes(played)
        floor = json.loads((folder / "before.json").read_text()) | {"reward": -1.5}
        floor["errors"] = {"reward": 0.25}
        (folder / "floor.json").write_text(json.dumps(floor))
    told = json.loads((write_evaluation(tmp_path / "result") / "evaluation.json").read_text())
    told["agents"]["bad"]["statistics"]["floor"] = 4.0
    (tmp_path / "result" / "evaluation.json").write_text(json.dumps(told))
    warning = page.locator(".note", has_text="Different tasks were played")
    with served(tmp_path) as address:
        show(page, address, "runs?run=one&run=two")
        assert warning.count() == 0
        floors = page.get_by_role("region", name="Latest evaluation").locator(
            "tr", has_text="floor"
        )
        assert floors.inner_text().split("\t")[1:] == ["−1.50 ± 0.25"] * 2
        show(page, address, "runs?run=one&run=three&run=result")
        expect(warning).to_contain_text("one 1, three 1, result 3; none in common")
        expect(floors).to_have_count(1)
        assert floors.inner_text().split("\t")[3:] == ["-", "4.00"]
    assert page.faults == []


def test_long_lists_of_the_journal_are_folded(page, tmp_path):
    folder = write_run(tmp_path / "run")
    entries = [f"{EVIL} {n}" for n in range(40)]
    entries[-1] = 'Settings: a = [1, 2], b = {c = 1, d = "e"}, f = (g, h), i = 1, j = 2'
    entries[-2] = "Step 3: reward 1, 2, 3"
    (folder / "journal.md").write_text("".join(f"- {one}\n" for one in entries))
    with served(folder) as address:
        show(page, address, "")
        shown = page.locator(".journal").last.locator("> li")
        assert shown.count() == 20
        expect(shown.nth(18)).to_have_text("Step 3: reward 1, 2, 3")
        items = shown.last.locator("ul > li")
        expect(items.first).to_be_hidden()
        shown.last.locator("summary", has_text="Settings (5)").focus()
        page.keyboard.press("Enter")
        expect(items.first).to_be_visible()
        assert items.all_inner_texts() == [
            *("a = [1, 2]", 'b = {c = 1, d = "e"}', "f = (g, h)", "i = 1", "j = 2"),
        ]
        earlier = page.locator(".journal").first.locator("> li")
        expect(earlier.first).to_be_hidden()
        page.get_by_text("Earlier entries (20)").click()
        expect(earlier).to_have_count(20)
        expect(earlier.first).to_have_text(f"{SEEN} 0")
    assert page.evaluate("window.pwned") is None
    assert page.faults == []


def test_episodes_are_searched(page, run, exported, monkeypatch):
    show(page, run, "")
    page.keyboard.press("3")
    expect(page.locator("h1")).to_have_text("Search")
    page.keyboard.press("/")
    page.keyboard.type("worked ON reports")
    page.keyboard.press("Enter")
    found = page.locator(".found li")
    expect(found).to_have_count(STEPS * GROUP)  # the task of each
    first = found.first
    assert "in action 3, reply 1, reply 3, task" in first.inner_text()
    expect(first.locator("mark")).to_have_text("Worked on reports")
    expect(page.get_by_role("status")).to_contain_text("12 episodes found, 12 episodes searched")
    page.keyboard.press("Escape")
    first.locator("a").click()
    page.wait_for_selector('main[data-shows^="#/episode/0?turn="]')
    assert "Worked on reports" in page.locator(".turn:focus").inner_text()
    # in parts
    monkeypatch.setattr(search, "MATCHES", 5)
    show(page, run, "search?text=%3Csvg")
    for count, searched in ((5, "the first 5 of"), (10, "the first 10 of"), (12, "12 episodes")):
        expect(found).to_have_count(count)
        expect(page.locator("main .row span")).to_contain_text(searched)
        if count < 12:
            page.get_by_role("button", name="Search on").click()
    assert page.get_by_role("button", name="Search on").count() == 0
    show(page, run, "search?text=xyzzy")
    expect(page.locator("main")).to_contain_text("0 episodes found")
    assert page.evaluate("window.pwned") is None
    show(page, exported, "")
    expect(page.get_by_role("link", name="Search")).to_be_hidden()
    assert page.faults == []


def test_a_running_evaluation_is_followed(page, tmp_path):
    folder = write_evaluation(tmp_path / "result")
    settings = {"env": "ResumeEdit-v0", "limit": 3, "rollouts": 2}
    settings["agents"] = {"good": "", "bad": ""}
    (folder / "settings.json").write_text(json.dumps(settings))
    (folder / "evaluation.json").unlink()
    episodes = folder / "episodes.jsonl"
    first, *rest = episodes.read_text().splitlines(keepends=True)
    episodes.write_text(first)
    page.clock.install()
    with served(folder) as address, episodes.open("a") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        show(page, address, "")
        assert "running" in page.locator(".facts").inner_text()
        so_far = page.get_by_role("region", name="So far").locator("tbody tr")
        assert [one.split("\t")[1] for one in so_far.all_inner_texts()] == ["1 of 6", "0 of 6"]
        writer.writelines(rest)
        writer.flush()
        page.clock.run_for(3100)
        expect(so_far.first).to_contain_text("6 of 6")
    assert page.faults == []


def test_what_a_judge_was_asked_and_what_a_turn_cost(page, tmp_path):
    session = play(evil_task(0), 1)
    asked = {"kind": "judge-support-2", "system": "Rules", "user": EVIL, "answer": EVIL}
    costs = [{"tokens_in": 900, "tokens_out": 30 + n, "seconds": 1.5} for n in range(3)]
    record = {**session.record(), "agent": "a", "rollout": 0, "costs": costs, "asked": [asked]}
    (tmp_path / "episodes.jsonl").write_text(json.dumps(record) + "\n")
    with served(tmp_path) as address:
        show(page, address, "episode/0")
        assert (
            "900 tokens read, 31 tokens written, 1.50 s"
            in page.locator(".turn").nth(1).inner_text()
        )
        open_all(page)
        assert page.locator("pre", has_text=SEEN).count() >= 2
    assert page.evaluate("window.pwned") is None
    assert page.faults == []


def test_a_comparison_with_the_group_is_below_the_reward(page, tmp_path):
    session = play(evil_task(0), 1)
    record = {**session.record(), "agent": "a", "rollout": 0, "comparison": -0.375}
    (tmp_path / "episodes.jsonl").write_text(json.dumps(record) + "\n")
    with served(tmp_path) as address:
        show(page, address, "episode/0")
        rows = page.locator(".ledger tr").all_inner_texts()
    assert rows[-2].startswith("reward")
    assert rows[-1].startswith("comparison with the group, in training")
    assert rows[-1].endswith("0.38")
    assert page.faults == []


def test_the_table_is_filtered_and_sorted(page, run, folder):
    results = read(folder)
    show(page, run, "episodes")
    assert rows(page).count() == len(results.rows)
    page.select_option("#filter-flags", "no submit")
    expect(rows(page)).to_have_count(STEPS)
    page.select_option("#filter-step", "2")
    expect(rows(page)).to_have_count(1)
    page.click("#clear")
    expect(rows(page)).to_have_count(STEPS * GROUP)
    page.locator("#filter-task").press_sequentially("2 <")
    expect(rows(page)).to_have_count(GROUP)
    assert page.evaluate("document.activeElement.id") == "filter-task"
    page.click("#clear")
    expect(rows(page)).to_have_count(STEPS * GROUP)
    page.get_by_role("button", name="reward").click()
    page.get_by_role("button", name="reward ↑").click()
    assert page.locator("th[aria-sort=descending]").inner_text() == "reward\xa0↓"
    shown = [float(one.replace("−", "-")) for one in page.locator("td.reward").all_inner_texts()]
    assert shown == sorted((row.reward for row in results.rows), reverse=True)


def test_nothing_has_been_played_yet(page, tmp_path):
    (tmp_path / "trajectories").mkdir()
    # a figure that was never a number has no curve
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "reward": NaN, "score": 50.0}\n')
    with served(tmp_path) as address:
        show(page, address, "")
        assert page.locator(".chart h3").all_inner_texts() == ["Score, 0 to 100"]
        show(page, address, "episodes")
        assert "No episode has ended yet" in page.locator("main").inner_text()
    assert page.faults == []


def test_an_episode_shows_what_happened(page, run):
    session = play(evil_task(0), 0)
    show(page, run, "episode/0")
    turns = page.locator(".turn")
    assert turns.count() == session.turns
    assert turns.nth(2).locator(".minus").count() == 1
    assert "Worked on reports" in turns.nth(2).locator(".minus").text_content()
    marked = turns.nth(1).locator(".minus mark")
    assert marked.text_content() == "Helped build"
    ledger = page.locator(".ledger").inner_text()
    assert re.search(rf"reward\s+\{session.reward:+.2f}", ledger)
    for term, value in session.ledger.items():
        if value:
            told = f"{abs(value):.2f}"
            assert re.search(rf"{term.replace('_', ' ')}\s+[+−]{told}", ledger), term

    lines = wrapped_lines(session.text, RULES.page_width)
    assert page.locator(".page li.over").count() == lines - RULES.page_lines > 0
    sides = page.locator(".sides")
    assert "Worked on reports" in "".join(sides.locator(".minus").all_text_contents())
    prompt = page.locator("details", has=page.locator("summary", has_text="system prompt"))
    assert prompt.locator("pre").is_hidden()
    prompt.locator("summary").click()
    assert prompt.locator("pre").inner_text() == Session.system_prompt


def test_the_episodes_of_several_environments_are_told_apart(page, tmp_path):
    with served(write_mixed_run(tmp_path / "run")) as address:
        show(page, address, "episodes")
        assert page.locator("td.env").all_text_contents() == list(MIXED)
        for number, name in enumerate(MIXED):
            show(page, address, f"episode/{number}")
            expect(page.locator(".facts").first).to_contain_text(f"environment {name}")
            prompt = page.locator("details", has=page.locator("summary", has_text="system prompt"))
            assert ("search" in (prompt.locator("pre").text_content() or "")) == bool(number)


def test_two_of_a_group_are_compared(page, run):
    show(page, run, "episode/0")
    page.get_by_role("link", name="compare with rollout 1").click()
    page.wait_for_selector('main[data-shows="#/compare/0/1"]')
    told = [one.inner_text() for one in page.locator("tr", has_text="reward").all()]
    for text, member in zip(told, (0, 1), strict=True):
        assert f"{play(evil_task(0), member).reward:+.2f}".replace("-", "−") in text
    assert "Rust" in page.locator(".sides .plus").last.text_content()
    assert page.locator(".turn").count() == 4 + 3


def test_an_evaluation_shows_agents_and_what_failed(page, evaluation):
    show(page, evaluation, "")
    figures = page.get_by_role("region", name="Figures of each agent")
    assert figures.locator("thead th").all_inner_texts() == ["good", "bad"]
    assert "−1.25 to 0.50" in figures.locator("tr", has_text="95 % interval").inner_text()
    differences = page.get_by_role("region", name="Differences in mean reward")
    told = differences.locator("tbody tr").inner_text().split("\t")
    assert told[:3] == ["bad − good", "−5.00", "−6.00 to −4.00"]
    show(page, evaluation, "episodes?outcome=not+graded")
    assert rows(page).count() == 1
    rows(page).locator("a").click()
    expect(page.locator(".note", has_text="It could not be graded")).to_contain_text("no verdict")
    assert "not graded" in page.locator(".facts").inner_text()


# --- for everybody ------------------------------------------------------------------------------


def test_keys(page, run):
    show(page, run, "")
    page.keyboard.press("2")
    expect(page.locator("h1")).to_have_text("Episodes")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector('main[data-shows="#/episode/1"]')
    expect(page.locator("h1")).to_contain_text("0 <")
    page.keyboard.press("n")
    assert "turn" in page.evaluate("document.activeElement.className")
    page.keyboard.press("j")
    page.wait_for_selector('main[data-shows="#/episode/2"]')
    page.wait_for_selector(".turn >> nth=5")
    page.keyboard.press("u")
    page.wait_for_selector('main[data-shows^="#/episodes"] table')
    # it goes on from the episode that was open
    assert page.evaluate("document.activeElement.getAttribute('href')") == "#/episode/2"
    page.keyboard.press("/")
    expect(page.locator("#filter-task")).to_be_focused()
    page.keyboard.type("1?")  # in a box they are letters
    assert page.input_value("#filter-task") == "1?"
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert page.faults == []


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (360, "dark")])
def test_everybody_can_read_it(browser, run, evaluation, listed, width, scheme):
    context = browser.new_context(
        viewport={"width": width, "height": 740}, color_scheme=scheme, bypass_csp=True
    )
    page = context.new_page()
    paths = ("", "episodes", "episode/0", "compare/0/1")
    for address, path in [
        *((run, one) for one in (*paths, "search?text=reports")),
        *((evaluation, ""), (listed, ""), (listed, "runs?run=two")),
    ]:
        show(page, address, path)
        open_all(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        found = Axe().run(page)
        assert found.violations_count == 0, f"{path}: {found.generate_report()}"
    context.close()


@pytest.mark.slow
def test_ten_thousand_episodes(page, tmp_path_factory):
    folder = write_evaluation(tmp_path_factory.mktemp("large") / "large", rollouts=1667)
    with served(folder) as address:
        show(page, address, "episodes")
        expect(page.locator("#found")).to_contain_text("10003 of 10003 episodes")
        assert rows(page).count() == 50
        assert page.evaluate("document.querySelectorAll('*').length") < 3000
        page.select_option("#filter-agent", "bad")
        expect(page.locator("#found")).to_contain_text("5002 of 10003 episodes")
        page.locator("button", has_text="Next").first.click()
        expect(page.get_by_text("page 2 of 101").first).to_be_visible()
        page.goto(f"{address}#/episode/10002")
        expect(page.locator(".note").last).to_contain_text("no verdict")
