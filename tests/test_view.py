"""The viewer's data and its server; `test_viewer_page.py` looks at the page in a browser."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from base64 import b64decode
from gzip import decompress
from http.client import HTTPConnection
from importlib.resources import files
from pathlib import Path
from urllib.request import urlopen

import pytest
from hypothesis import given
from hypothesis import strategies as st
from viewer_runs import EVIL, GROUP, RULES, STEPS, evil_task, play, write_evaluation, write_run

from examples.release_notes import RULES as NOTES_RULES
from examples.release_notes import Editor, NotesSession, make_release
from resume_gym import Rules, Session, tool_call
from resume_gym.cli import main
from resume_gym.document import wrapped_lines
from resume_gym.tasks import Task, TaskError
from resume_gym.viewer import episode, html
from resume_gym.viewer.data import Results, UnreadableError
from resume_gym.viewer.rows import make_row
from resume_gym.viewer.server import serve
from resume_gym.viewer.tasks import Tasks, find_decoder, find_tasks


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    results = Results(write_run(tmp_path_factory.mktemp("runs") / "a run"))
    results.refresh()
    return results


@pytest.fixture
def evaluation(tmp_path):
    results = Results(write_evaluation(tmp_path / "evaluation"))
    results.refresh()
    return results


def texts_of(shown):
    """The documents of an episode that is shown, each as it was."""
    lines = shown["documents"]["lines"]
    return ["\n".join(lines[one] for one in after) for after in shown["documents"]["after"]]


# --- one episode --------------------------------------------------------------------------------

PIECES = st.sampled_from(["a", "b", "- a\n", "\n", "\n\n", "@@ -1 +1 @@\n", "-a\n", "+b", " "])
TEXTS = st.lists(PIECES, min_size=1, max_size=12).map("".join)


@given(TEXTS, st.lists(st.tuples(TEXTS, TEXTS, st.integers(1, 3)), max_size=8))
def test_the_document_before_every_edit_is_found_from_the_final_one(resume, edits):
    session = Session(Task("t", "job", resume, "weak_verbs"), Rules(max_turns=10, page_width=7))
    expected = [session.text]
    for old, new, count in edits:
        session.step(tool_call("str_replace", old=old, new=new, count=count))
        expected.append(session.text)
    record = session.record()
    played = episode.turns(record)
    assert episode.texts(record, played) == expected
    assert [turn.kind == "edit" for turn in played] == [
        "edit" in step.ledger for _, step in session.state.transcript
    ]


@pytest.mark.parametrize("member", range(GROUP))
def test_turns_are_read_as_they_were_played(member):
    session = play(evil_task(0), member)
    shown = episode.episode(session.record(), session.task, session.original)
    transcript = session.state.transcript
    for turn, (action, step) in zip(shown["turns"], transcript, strict=True):
        assert turn["action"] == action
        assert turn["error"] == ("" if step.error == "none" else step.error)
        calls = ("edit", "failed_edit", "malformed", "review", "submit")
        assert turn["reward"] == sum(step.ledger.get(name, 0.0) for name in calls)
        assert turn["reply"] in step.observation
        assert step.observation.endswith(turn["status"].replace(" | turns", "\nturns"))
    assert shown["notes"] == []
    assert {one["term"]: one["value"] for one in shown["ledger"]} == session.ledger
    assert texts_of(shown)[0] == session.original.rstrip("\n")
    assert texts_of(shown)[-1] == session.text.rstrip("\n")


def test_a_call_and_what_was_said_around_it_are_told_apart():
    turn = episode.turns(play(evil_task(0), 0).record())[1]
    assert (turn.tool, turn.arguments) == ("str_replace", {"old": "Helped build", "new": EVIL})
    assert turn.said == f"<think>{EVIL}</think>"


def test_a_page_that_begins_like_an_error_is_none():
    resume = "error (not_found): of mine\nsubmitted\n"
    session = Session(Task("t", "job", resume, "weak_verbs"))
    session.step(tool_call("review"))
    (turn,) = episode.turns(session.record())
    assert (turn.kind, turn.error, turn.reply) == ("shown", "", resume.rstrip("\n"))


def test_lines_that_wrap_come_with_their_rows():
    session = play(evil_task(0), 0)
    documents = episode.episode(session.record(), None, None)["documents"]
    for after, text in ((0, session.original), (-1, session.text)):
        numbers = documents["after"][after]
        rows = sum(len(documents["wrapped"].get(number, [0])) for number in numbers)
        assert rows == wrapped_lines(text, RULES.page_width)


def test_a_record_whose_diffs_do_not_fit_says_so():
    record = play(evil_task(0), 0).record() | {"text": "another text\n"}
    shown = episode.episode(record, None, None)
    assert texts_of(shown) == ["another text"]
    assert "cannot be reconstructed" in shown["notes"][0]


def test_a_task_that_has_changed_since_is_told():
    session = play(evil_task(0), 0)
    shown = episode.episode(session.record(), evil_task(0), "another resume")
    assert "another document" in shown["notes"][0]
    assert texts_of(shown)[0] == session.original.rstrip("\n")


def test_a_verdict_comes_with_its_reasons():
    shown = episode.episode(play(evil_task(0), 0).record(), None, None)
    clarity = next(one for one in shown["verdict"]["fields"] if one["field"] == "clarity")
    assert clarity == {"field": "clarity", "value": 1, "reasons": EVIL, "confidence": 0.5}


# --- other domains ------------------------------------------------------------------------------


def test_another_domain_of_editing():
    release = make_release("train", 0)
    session = NotesSession(release, NOTES_RULES)
    number = release.draft.split("(#")[1].split(")")[0]
    session.step(tool_call("drop", entry=f"(#{number})"))
    session.step(tool_call("submit"))
    session.grade(Editor().judge(release, session.text))
    record = {**session.record(), "group": 3, "member": 1}
    tasks = find_tasks("examples.release_notes:ReleaseNotes-v0", "")
    row = make_row(record, 7, tasks)
    assert (row.weakness, row.outcome, row.edits) == (release.weakness, "submitted", 1)
    assert row.reward == session.reward
    assert "worse coverage" in row.flags
    shown = episode.episode(record, release, tasks.original(release.task_id))
    assert [one["field"] for one in shown["verdict"]["fields"]] == [
        "coverage",
        "placement",
        "noise",
    ]
    assert texts_of(shown)[0] == release.draft.rstrip("\n")
    assert "changes" in [one["name"] for one in shown["task"]]


def test_an_environment_that_edits_nothing():
    record = {
        "task_id": "Guess-v0/3", "max_turns": 5, "actions": ["5", "7"], "rewards": [0.0, 1.5],
        "reward": 1.5, "text": "right", "graded": True, "group": 1, "member": 0,
    }  # fmt: skip
    row = make_row(record, 1, Tasks())
    assert (row.outcome, row.reward, row.turns, row.flags) == ("ended", 1.5, 2, ())
    assert (row.edits, row.failed_edits, row.lines) == (None, None, None)
    shown = episode.episode(record, None, None)
    assert [(one["kind"], one["reward"]) for one in shown["turns"]] == [
        ("text", 0.0),
        ("text", 1.5),
    ]
    assert shown["documents"]["after"] == []
    assert shown["text"] == "right"


def test_tasks_that_are_nowhere_are_a_note():
    for env, source in (("nowhere.at_all:Env-v0", ""), ("ResumeEdit-v0", "nowhere.jsonl")):
        tasks = find_tasks(env, source)
        assert env in tasks.note
        assert tasks.original("any") is None
    assert find_tasks("CartPole-v1", "") == Tasks()


# --- folders ------------------------------------------------------------------------------------


def test_rows_of_a_run(run):
    assert len(run.rows) == STEPS * GROUP
    good, failed, silent, idle = run.rows[:GROUP]
    assert good == good._replace(
        step=1, group="1/1", member=0, task=f"0 {EVIL}", weakness="weak_verbs", page_lines=9,
        outcome="submitted", turns=4, edits=2, failed_edits=0, flags=("too long",),
    )  # fmt: skip
    assert good.reward == play(evil_task(0), 0).reward
    assert "failed edits" in failed.flags
    assert {"malformed", "no submit"} <= set(silent.flags)
    assert silent.outcome == "out of turns"
    assert "not judged" in idle.flags


def test_a_folder_that_grows_is_read_on(tmp_path):
    folder = write_run(tmp_path / "run")
    results = Results(folder)
    results.refresh()
    file = folder / "trajectories" / "step-000003.jsonl"
    first, *_ = file.read_text().splitlines()
    again = json.dumps({**json.loads(first), "graded": False})
    with file.open("a") as opened:
        opened.write("no JSON\n" + again + "\n" + first[:100])
    results.refresh()
    assert len(results.rows) == STEPS * GROUP  # the later of two lines counts
    replaced = results.rows[2 * GROUP]
    assert (replaced.outcome, replaced.reward) == ("not graded", None)
    assert results.record(2 * GROUP)["graded"] is False
    assert any("1 lines" in note for note in results.index()["notes"])
    with file.open("a") as opened:
        opened.write(first[100:] + "\n")
    results.refresh()
    assert results.rows[2 * GROUP].outcome == "submitted"


def append(folder, *records):
    with (folder / "trajectories" / "step-000003.jsonl").open("a") as file:
        file.writelines(json.dumps(one) + "\n" for one in records)


def read(folder):
    results = Results(folder)
    results.refresh()
    return results


def test_what_is_no_number_stays_none(tmp_path):
    folder = write_run(tmp_path / "run")
    record = json.loads((folder / "trajectories" / "step-000003.jsonl").open().readline())
    nan, infinity = float("nan"), float("inf")
    append(
        folder,
        {**record, "member": 8, "reward": nan, "verdict": {"clarity": nan}},
        {**record, "member": 9, "ledger": {"edit": infinity}},
    )
    with (folder / "config.toml").open("a") as config:
        config.write("clip = inf\nday = 2026-11-22\n")
    (folder / "metrics.jsonl").write_text(
        '{"step": 1, "reward": NaN}\n{"reward": 2}\n{"step": 2, "reward": 1.0}\n{"step": 3, "rew'
    )
    results = read(folder)
    index = json.loads(json.dumps(results.index(), allow_nan=False))
    assert results.rows[-1].member == 8
    assert results.rows[-1].reward is None
    json.dumps(results.episode(len(results.rows) - 1), allow_nan=False)
    assert any("1 lines" in note for note in index["notes"])  # a sum of that ledger is no number
    assert [(one["step"], one["reward"]) for one in index["metrics"]] == [(1, None), (2, 1.0)]
    assert (index["settings"]["clip"], index["settings"]["day"]) == ("Infinity", "2026-11-22")


@pytest.mark.parametrize("wrong", [{"actions": None}, {"actions": [5]}, {"observations": None}])
def test_an_episode_that_makes_no_sense_takes_no_other_with_it(tmp_path, wrong):
    folder = write_run(tmp_path / "run")
    record = json.loads((folder / "trajectories" / "step-000003.jsonl").open().readline())
    append(folder, {**record, "member": 9, **wrong})
    results = read(folder)
    number = len(results.rows) - 1
    with pytest.raises(UnreadableError):
        results.episode(number)
    assert html.export(results, tmp_path / "run.html") == 1
    assert packed(tmp_path / "run.html", "index")["chunks"].count(None) == 1


def test_a_run_that_was_killed_before_its_first_step(tmp_path):
    (tmp_path / "trajectories").mkdir()
    (tmp_path / "config.toml").write_text('env = "ResumeEditMini-v0"\n')
    index = read(tmp_path).index()
    assert (index["rows"], index["metrics"], index["figures"]) == ([], [], {})
    assert html.export(read(tmp_path), tmp_path / "run.html") == 0


def test_what_a_downloaded_run_names_is_not_imported_from_where_it_lies(tmp_path):
    (tmp_path / "trajectories").mkdir()
    (tmp_path / "config.toml").write_text('env = "planted:Env-v0"\n')
    (tmp_path / "planted.py").write_text('open("planted.txt", "w")\n')
    call = "from resume_gym.cli import main; raise SystemExit(main())"
    path = str(Path(__file__).parents[1])
    told = subprocess.run(
        [sys.executable, "-P", "-c", call, "view", ".", "--export", "run.html"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    assert not (tmp_path / "planted.txt").exists()
    assert "PYTHONPATH" in packed(tmp_path / "run.html", "index")["notes"][0]


def test_an_episode_without_a_verdict_has_no_number(evaluation):
    failed = evaluation.rows[-1]
    assert (failed.outcome, failed.reward, failed.score) == ("not graded", None, None)
    assert evaluation.episode(len(evaluation.rows) - 1)["failure"] == f"no verdict: {EVIL}"
    index = evaluation.index()
    assert index["figures"]["good"]["episodes"] == 3
    assert "nowhere.jsonl" in index["notes"][0]


def test_tokens_are_read_with_the_runs_tokenizer(run, tmp_path):
    told = run.tokens(0)
    assert told["prompt"] == 3
    assert told["ids"] == list(range(10, 30))
    assert told["texts"] is None  # that model is nowhere
    decode = find_decoder(tmp_path, "nano")
    assert decode is not None
    assert "<tool_call>" in [decode(number) for number in range(8000)]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere", "there is no folder"),
        ("run/config.toml", "did you mean its folder"),
        ("run/trajectories", "expected a run .* or an evaluation"),
    ],
)
def test_other_folders_are_refused(tmp_path, name, message):
    write_run(tmp_path / "run")
    with pytest.raises(TaskError, match=message):
        Results(tmp_path / name)


# --- server -------------------------------------------------------------------------------------


@pytest.fixture
def server(run):
    with serve(run, 0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def get(server, path, host=None):
    connection = HTTPConnection("127.0.0.1", server.server_port)
    connection.request("GET", path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def test_it_listens_on_the_loopback_address_alone(server):
    assert server.server_address[0] == "127.0.0.1"


def test_it_answers_episodes_and_tokens(server, run):
    index = json.loads(get(server, "/index.json")[1])
    assert [row[index["columns"].index("task")] for row in index["rows"]] == [
        row.task for row in run.rows
    ]
    assert json.loads(get(server, "/episode/5.json")[1]) == json.loads(json.dumps(run.episode(5)))
    assert json.loads(get(server, "/tokens/5.json")[1]) == run.tokens(5)


@pytest.mark.parametrize(
    "path", ["/episode/99.json", "/episode/-1.json", "/config.toml", "/../config.toml", "/x?/"]
)
def test_it_answers_nothing_else(server, path):
    assert get(server, path)[0].status == 404


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "localhost.evil.example", "1"])
def test_a_name_that_is_pointed_at_this_machine_reads_nothing(server, host):
    answer, body = get(server, "/index.json", host)
    assert answer.status == 403
    assert b"weak_verbs" not in body


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:9", "[::1]:80", "localhost:8655"])
def test_this_machines_own_names_and_forwarded_ports_are_good(server, host):
    assert get(server, "/index.json", host)[0].status == 200


def test_other_pages_may_not_read_or_frame_it(server):
    headers = get(server, "/")[0].headers
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Access-Control-Allow-Origin"] is None


def test_a_browser_that_goes_away_is_no_error_of_the_server(server, capsys):
    for error, said in (
        (ConnectionResetError(), False),
        (BrokenPipeError(), False),
        (OSError(), True),
    ):
        try:
            raise error
        except OSError:
            server.handle_error(None, ("127.0.0.1", 1))
        assert bool(capsys.readouterr().err) == said


# --- file and command ---------------------------------------------------------------------------


def packed(file, name):
    text = file.read_text()
    found = re.search(rf'<script type="text/plain" id="{name}">([A-Za-z0-9+/=]*)</script>', text)
    assert found
    return json.loads(decompress(b64decode(found[1])))


def test_an_exported_file_holds_all_but_tokens(run, tmp_path):
    file = tmp_path / "run.html"
    assert html.export(run, file) == 0
    index = packed(file, "index")
    for number, chunk in enumerate(index["chunks"]):
        shown = packed(file, f"chunk-{chunk}")[str(number)]
        assert shown == json.loads(json.dumps(run.episode(number)))
    assert "pwned" not in file.read_text()
    assert "logprobs" not in json.dumps(packed(file, "chunk-0"))
    assert "connect-src 'none'" in file.read_text()


def test_an_exported_file_is_bounded(run, tmp_path):
    file = tmp_path / "run.html"
    left_out = html.export(run, file, limit=1)
    assert left_out == (STEPS - 1) * GROUP  # whole groups, and one at least
    kept = [number for number, chunk in enumerate(packed(file, "index")["chunks"]) if chunk == 0]
    assert {run.rows[number].group for number in kept} == {run.rows[kept[0]].group}
    assert len(packed(file, "index")["rows"]) == STEPS * GROUP


def test_scripts_read_no_string_as_markup():
    page = files("resume_gym.viewer").joinpath("page")
    assert {one.name for one in page.iterdir() if one.name.endswith(".js")} == set(html.SCRIPTS)
    for name in html.SCRIPTS:
        script = page.joinpath(name).read_text(encoding="utf-8")
        ways = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|srcdoc|new Function"
        assert not re.search(ways, script), name
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", script), name


def test_the_command_exports(run, tmp_path, capsys):
    file = tmp_path / "run.html"
    assert main(["view", str(run.path), "--export", str(file)]) == 0
    assert file.is_file()
    assert f"{STEPS * GROUP} episodes, " in capsys.readouterr().out


def test_a_file_of_ones_own_is_not_overwritten(run, tmp_path, capsys):
    file = tmp_path / "thesis.html"
    file.write_text("<p>Years of work</p>")
    assert main(["view", str(run.path), "--export", str(file)]) == 2
    assert "was not exported from here" in capsys.readouterr().err
    assert file.read_text() == "<p>Years of work</p>"
    again = tmp_path / "run.html"
    for _ in range(2):
        assert main(["view", str(run.path), "--export", str(again)]) == 0


def test_the_command_serves_until_it_is_interrupted(run):
    # a background job of a shell ignores interrupts
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    call = "from resume_gym.cli import main; raise SystemExit(main())"
    arguments = [sys.executable, "-c", heard + call, "view", str(run.path), "--port", "0"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().startswith(f"{STEPS * GROUP} episodes of ")
        address = process.stdout.readline().split()[0]
        with urlopen(address + "index.json") as answer:
            assert len(json.load(answer)["rows"]) == STEPS * GROUP
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0


def test_mistakes_are_one_line(run, server, tmp_path, capsys):
    for arguments, message in (
        (["nowhere"], "view: there is no folder 'nowhere'"),
        ([run.path, "--export", tmp_path / "nowhere" / "run.html"], "--export: there is no folder"),
        ([run.path, "--export", tmp_path], "is a folder"),
        ([run.path, "--port", server.server_port], "choose another"),
    ):
        assert main(["view", *map(str, arguments)]) == 2
        told = capsys.readouterr().err
        assert message in told
        assert told.count("\n") == 1
    with pytest.raises(SystemExit):
        main(["view", str(run.path), "--port", "65536"])
