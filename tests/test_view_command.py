"""How the viewer serves and exports; what the page does is in `test_viewer_page.py`."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.request import urlopen

import pytest
from viewer_runs import GROUP, STEPS, packed, read, write_evaluation, write_run

from resume_gym.apps.viewer import html
from resume_gym.apps.viewer.data import FolderContents
from resume_gym.apps.viewer.listing import Listing
from resume_gym.apps.viewer.search import search
from resume_gym.apps.viewer.server import serve
from resume_gym.cli import main


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return read(write_run(tmp_path_factory.mktemp("runs") / "a run"))


# --- server -------------------------------------------------------------------------------------


@contextmanager
def serving(shown):
    with serve(shown, 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def server(run):
    with serving(run) as server:
        yield server


def get(server, path, **headers):
    connection = HTTPConnection("127.0.0.1", server.server_port)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def test_it_answers_episodes_and_records(server, run):
    assert server.server_address[0] == "127.0.0.1"
    index = json.loads(get(server, "/index.json")[1])
    assert [row[index["columns"].index("task")] for row in index["rows"]] == [
        row.task for row in run.rows
    ]
    assert json.loads(get(server, "/episode/5.json")[1]) == json.loads(json.dumps(run.episode(5)))
    assert json.loads(get(server, "/record/5.json")[1]) == run.record(5)
    assert json.loads(get(server, "/version.json")[1]) == index["version"] == run.version()


def test_rows_are_sent_once(tmp_path):
    folder = write_run(tmp_path / "run")

    def ask(seen):
        index = json.loads(get(server, f"/index.json?seen={seen}")[1])
        numbers = [row[0] for row in index["rows"]]
        return index["seen"], index["continues"], numbers, index

    every = [*range(STEPS * GROUP)]
    file = folder / "trajectories" / "step-000003.jsonl"
    first, *others = file.read_text().splitlines(keepends=True)
    with serving(FolderContents(folder)) as server:
        seen, *told, index = ask("")
        assert told == [False, every]
        assert ask(seen)[1:3] == (True, [])
        new = {**json.loads(first), "member": 9}
        with file.open("a") as opened:  # a new episode, and a later line of an old one
            opened.write(json.dumps(new) + "\n" + first)
        later, *told, changed = ask(seen)
        assert told == [True, [2 * GROUP, STEPS * GROUP]]
        assert len(changed["rows"][0]) == len(index["columns"])
        assert ask(later)[2] == []
        for unknown in ("", "x-1", f"{later.partition('-')[0]}-{'9' * 5000}", "%00"):
            assert ask(unknown)[1:3] == (False, [*every, STEPS * GROUP])
        file.write_text("".join(others))  # written anew
        assert ask(later)[1:3] == (False, every[:-1])


def test_it_searches(server, run):
    whole = search(run, "str_replace")
    assert len(whole["matches"]) > STEPS
    for query, wanted in (
        ("text=str_replace", whole),
        ("text=str_replace&start=x", whole),
        (f"text=STR_replace&start={GROUP}", search(run, "str_replace", GROUP)),
        ("text=Worked+on%20reports", search(run, "Worked on reports")),
        ("", {"matches": [], "next": None}),
        (f"text={'x' * 5000}&start={'9' * 9}", {"matches": [], "next": None}),
    ):
        answer, body = get(server, f"/search.json?{query}")
        assert answer.status == 200
        assert json.loads(body) == wanted


def test_a_damaged_file_is_an_error_of_the_request(tmp_path):
    run = read(write_run(tmp_path / "run"))
    (run.path / "before.json").write_text("[1]")
    with serving(run) as server:
        answer, body = get(server, "/figures.json")
    assert answer.status == 500
    assert b"before.json: expected an object" in body


@pytest.mark.parametrize("name", ["a run #1?", "seeds/a run #1?"])
def test_a_list_of_runs_leads_to_each(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    run = read(write_run(tmp_path / name))
    write_evaluation(tmp_path / "other")
    with serving(Listing(tmp_path)) as server:
        listed = json.loads(get(server, "/index.json")[1])
        assert (listed["kind"], listed["listed"]) == ("list", False)
        href = next(row["href"] for row in listed["runs"] if row["name"] == name).removeprefix(".")
        assert get(server, href)[1] == get(server, "/")[1]  # the same page for all
        index = json.loads(get(server, href + "index.json")[1])
        assert (index["name"], index["listed"]) == (name, True)
        assert json.loads(get(server, href + "record/5.json")[1]) == run.record(5)
        for path in (
            "/other",
            "/nowhere/",
            "/search.json",
            "/../",
            "/%2e%2e/index.json",
            "/seeds/",
        ):
            assert get(server, path)[0].status == 404, path


SAME, OTHER = ({"Sec-Fetch-Site": site} for site in ("same-origin", "same-site"))


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        *((path, {}, 404) for path in ("/episode/99.json", "/episode/-1.json", "/config.toml")),
        *((path, {}, 404) for path in ("/../config.toml", "/x?/")),
        # a name that is pointed at this machine
        *(("/index.json", {"Host": f"{name}evil.example"}, 403) for name in ("", "localhost.")),
        *(("/index.json", {"Host": host}, 403) for host in ("evil.example:80", "1")),
        # this machine's own names, and forwarded ports
        *(("/index.json", {"Host": host}, 200) for host in ("localhost", "127.0.0.1:9")),
        *(("/index.json", {"Host": host}, 200) for host in ("[::1]:80", "localhost:8655")),
        # another site cannot ask for data, but have a link to the page
        *(("/version.json", headers, 403) for headers in (OTHER, {"Sec-Fetch-Site": "cross-site"})),
        ("/search.json?text=a", OTHER, 403),
        *(("/", OTHER, 200), ("/version.json", SAME, 200)),
    ],
)
def test_only_requests_of_the_page_on_this_machine_are_answered(server, path, headers, status):
    answer, body = get(server, path, **headers)
    assert answer.status == status
    assert (b"weak_verbs" in body) == (status == 200 and path == "/index.json")


def test_other_pages_may_not_read_or_frame_it(server):
    headers = get(server, "/")[0].headers
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Access-Control-Allow-Origin"] is None


def test_a_browser_that_goes_away_is_no_error_of_the_server(server, capsys):
    for error, said in ((ConnectionResetError, False), (BrokenPipeError, False), (OSError, True)):
        try:
            raise error
        except OSError:
            server.handle_error(None, ("127.0.0.1", 1))
        assert bool(capsys.readouterr().err) == said


# --- file and command ---------------------------------------------------------------------------


def test_an_exported_file_holds_all_but_records(run, tmp_path):
    file = tmp_path / "run.html"
    assert html.export(run, file) == 0
    index = packed(file, "index")
    for number, chunk in enumerate(index["chunks"]):
        shown = packed(file, f"chunk-{chunk}")[str(number)]
        assert shown == json.loads(json.dumps(run.episode(number)))
    assert "pwned" not in file.read_text()
    assert "logprobs" not in json.dumps(packed(file, "chunk-0"))
    assert "connect-src 'none'" in file.read_text()


def test_scripts_read_no_string_as_markup():
    script = html.page()
    ways = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|srcdoc|new Function"
    assert not re.search(ways, script)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", script)


def test_another_file_is_not_overwritten(run, tmp_path, capsys):
    file = tmp_path / "thesis.html"
    file.write_text("<p>Years of work</p>")
    assert main(["view", str(run.path), "--export", str(file)]) == 2
    assert "exists but is no exported page" in capsys.readouterr().err
    assert file.read_text() == "<p>Years of work</p>"
    again = tmp_path / "run.html"
    for _ in range(2):
        assert main(["view", str(run.path), "--export", str(again)]) == 0
        assert f"{STEPS * GROUP} episodes, " in capsys.readouterr().out
    link = tmp_path / "link.html"
    link.symlink_to(again)
    again.write_text(again.read_text().replace("</html>", "old</html>"))
    assert main(["view", str(run.path), "--export", str(link)]) == 0
    assert link.is_symlink()
    assert "old</html>" not in again.read_text()


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


def test_user_errors_are_one_line(run, server, tmp_path, capsys):
    list_of_runs = run.path.parent
    (tmp_path / "garbage").mkdir()
    (tmp_path / "garbage" / "episodes.jsonl").write_text("no episode\n")
    (tmp_path / "notes.txt").touch()  # in a folder that is none to view
    os.mkfifo(tmp_path / "pipe.html")
    for arguments, message in (
        (["nowhere"], "resume-gym: there is no folder 'nowhere'"),
        ([run.path, "--export", tmp_path / "nowhere" / "run.html"], "--export: there is no folder"),
        ([run.path, "--export", tmp_path / "pipe.html"], "pipe.html' is a pipe or a device"),
        ([run.path / "config.toml"], "did you mean its folder"),
        ([tmp_path / "notes.txt"], f"'{tmp_path}/notes.txt' is neither\n"),
        ([list_of_runs, "--export", tmp_path / "run.html"], f"{list_of_runs}: a run\n"),
        ([run.path, "--port", server.server_port], "choose another"),
        ([tmp_path / "garbage"], "no readable episode or step"),
    ):
        assert main(["view", *map(str, arguments)]) == 2
        told = capsys.readouterr().err
        assert message in told
        assert told.count("\n") == 1
    with pytest.raises(SystemExit):
        main(["view", str(run.path), "--port", "65536"])


@pytest.mark.parametrize("flags", [[], ["--trust-remote-code"]])
def test_the_module_that_a_downloaded_run_names_is_imported_only_with_the_flag(tmp_path, flags):
    (tmp_path / "trajectories").mkdir()
    (tmp_path / "config.toml").write_text('env = "planted:Env-v0"\n')
    (tmp_path / "planted.py").write_text('open("planted.txt", "w")\n')
    path = str(Path(__file__).parents[1])
    told = subprocess.run(
        [sys.executable, "-m", "resume_gym", "view", ".", "--export", "run.html", *flags],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    assert (tmp_path / "planted.txt").exists() == bool(flags)
    assert "--trust-remote-code" in packed(tmp_path / "run.html", "index")["notes"][0] or flags
