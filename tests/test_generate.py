"""`data generate`: interruptions do not change its file, and stored answers are not paid twice."""

import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from bank_writer import Answer, BankWriter, write
from loopback import Loopback, Say, gemini_server, openai_server, user_text

from resume_gym.cli import main
from resume_gym.cli.data_generate import add_command
from resume_gym.episode.tasks import read_jsonl
from resume_gym.support.command_line import Parser
from resume_gym.support.user_errors import TaskError
from resume_gym.synthesis import generate_task
from resume_gym.synthesis.personas import Persona, make_persona, place

KEY = "AIza-not-a-real-key-0123456789"
COUNT = 7
PROCEDURAL = ("--generator", "procedural", "--size", "mini")
SETTINGS = {"generator": "procedural", "seed": 0, "split": None, "size": "mini"}
PERSONAS = [make_persona(0, number, split) for split, number in map(place, range(12))]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GEMINI_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def run(*arguments: object) -> None:
    parser = Parser("resume-gym", ())
    add_command(parser.add_subparsers())
    options = parser.parse_args(["generate", *map(str, arguments)])
    options.run(options)


def arguments_for(
    server: Loopback, out: Path, *more: object, count: int = COUNT
) -> tuple[object, ...]:
    """The arguments of a run that asks a server."""
    wire = ("openai", "--model", "local") if server.url.endswith("/v1") else ("gemini",)
    options = ("--base-url", server.url, "--out", out, "--count", count)
    return ("--generator", *wire, *options, *more)


def manifest(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(out.with_name(out.name + ".manifest.json").read_bytes())
    return found


def names(out: Path) -> list[str]:
    """All files, without those that SQLite may leave for who opens the store next."""
    return sorted(
        one.name for one in out.parent.iterdir() if one.suffix[-4:] not in ("-wal", "-shm")
    )


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "tasks.jsonl"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of an uninterrupted run."""
    out: Path = tmp_path_factory.mktemp("whole") / "tasks.jsonl"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GEMINI_API_KEY", KEY)
        with gemini_server(BankWriter(PERSONAS, stumble).reply) as server:
            run(*arguments_for(server, out))
    return out.read_bytes()


def stumble(persona: Persona, again: bool, answer: Answer) -> Answer | str:
    """Every third first answer has a fault."""
    number = PERSONAS.index(persona)
    return {**answer, "summary": "A vague [summary]"} if not again and number % 3 == 0 else answer


# Procedural tasks


def test_procedural_tasks_are_those_of_the_generator(out: Path) -> None:
    run(*PROCEDURAL, "--count", 12, "--out", out)
    made = read_jsonl(out)
    places = map(place, range(12))
    assert made == [generate_task(0, number, split, "mini") for split, number in places]
    said = manifest(out)
    assert said["settings"] == SETTINGS
    assert (said["wanted"], said["tasks"], said["skipped"]) == (12, 12, [])
    assert said["splits"] == {"eval": 2, "train": 10}
    assert set(said["weaknesses"].values()) <= {1, 2, 3}
    assert Counter(task.split for task in made) == {"train": 10, "eval": 2}
    assert names(out) == ["tasks.card.md", "tasks.jsonl", "tasks.jsonl.manifest.json"]


# Model-written tasks


@pytest.mark.parametrize("serve", [gemini_server, openai_server])
def test_a_corpus_by_a_model(serve: Any, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer = BankWriter(PERSONAS)
    with serve(writer.reply, delay_s=0.05) as server:
        run(*arguments_for(server, out, count=12))
    made = read_jsonl(out)
    assert [task.task_id for task in made] == [one.task_id for one in PERSONAS]
    assert Counter(task.split for task in made) == {"train": 10, "eval": 2}
    assert len(server.requests) == 12
    assert server.most > 1
    said = manifest(out)
    gemini = serve is gemini_server
    model = "gemini-3-pro-preview" if gemini else "local"
    assert said["usage"]["served"] == [model]
    assert said["usage"]["outcomes"] == {"answer": 12}
    price = pytest.approx((1200 * 2 + 300 * 12) / 1e6) if gemini else None
    assert said["usage"]["dollars"] == price
    assert said["attempts"] == 12
    assert "12 of 12 tasks (2 eval, 10 train)" in capsys.readouterr().out
    assert KEY not in b"".join(path.read_bytes() for path in out.parent.iterdir()).decode("latin-1")


def spoil_some(persona: Persona, again: bool, answer: Answer) -> Answer | str:
    bad: Sequence[Callable[[Answer], Answer | str]] = (
        lambda a: {**a, "summary": "Knows every placeholder"},
        lambda a: {**a, "padding": []} if persona.padding else a,
        lambda a: json.dumps(a)[:-100],
        lambda a: _weaken(a, "strong"),
        lambda a: {**a, "portfolio": "I saved $987,654 once. " * 12},
    )
    number = PERSONAS.index(persona)
    if number == 5:
        return "{}"
    return bad[number](answer) if not again and number < len(bad) else answer


def _weaken(answer: Answer, form: str) -> Answer:
    """The weakness is absent: weak forms are the strong ones."""
    for job in answer["jobs"]:
        for bullet in job["bullets"]:
            bullet["weak"] = bullet[form]
    return answer


def test_bad_drafts_are_requested_again_with_their_faults(out: Path) -> None:
    writer = BankWriter(PERSONAS, spoil_some)
    with gemini_server(writer.reply) as server:
        run(*arguments_for(server, out, "--attempts", 2))
    turns = Counter(writer.asked)
    assert [turns[one.task_id] for one in PERSONAS[:COUNT]] == [2, 2, 2, 2, 2, 2, 1]
    again = [text for body in server.requests if "EARLIER ANSWER" in (text := user_text(body))]
    told = "\n".join(text.split("WHAT IS WRONG WITH IT")[1] for text in again)
    for fault in ("'placeholder'", "13 are wanted, not 0", "Invalid JSON", "in no fact"):
        assert fault in told
    said = manifest(out)
    assert said["faults"] == {"facts": 1, "leak": 1, "shape": 4, "weakness": 1}
    assert said["attempts"] == 13
    (skipped,) = said["skipped"]
    assert skipped["task_id"] == PERSONAS[5].task_id
    assert skipped["reason"].startswith("shape: about: Field required")
    kept = [one.task_id for number, one in enumerate(PERSONAS[:COUNT]) if number != 5]
    assert [task.task_id for task in read_jsonl(out)] == kept


def test_a_refusal_skips_a_task_and_is_reported(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = BankWriter(PERSONAS)
    with gemini_server(writer.reply) as server:
        server.script += [Say(finish="safety")]
        run(*arguments_for(server, out, "--width", 1))
    assert len(server.requests) == COUNT
    said = manifest(out)
    assert [one["task_id"] for one in said["skipped"]] == [PERSONAS[0].task_id]
    assert "refused" in said["skipped"][0]["reason"]
    assert said["faults"] == {"refused": 1}
    assert f"{PERSONAS[0].task_id}: refused:" in capsys.readouterr().out


def test_a_truncated_answer_is_requested_again(out: Path) -> None:
    with gemini_server(BankWriter(PERSONAS).reply) as server:
        server.script += [Say('{"about', finish="length")] * 2  # the client asks twice
        run(*arguments_for(server, out, "--width", 1, count=2))
    assert len(server.requests) == 4
    assert manifest(out)["faults"] == {"malformed": 1}
    assert len(read_jsonl(out)) == 2


def test_the_first_task_with_a_bullet_keeps_it(out: Path) -> None:
    """Although the second task's answer is there first."""
    keeper, copier = PERSONAS[0], PERSONAS[2]
    assert copier.weakness == "formatting_inconsistent"
    text = write(keeper)["jobs"][0]["bullets"][0]["strong"]

    def copy(persona: Persona, again: bool, answer: Answer) -> Answer | str:
        if persona is keeper and not again:
            return "{}"
        if persona is copier and not again:
            first = answer["jobs"][0]["bullets"][0]
            first.update(strong=text, facts=[text, *first["facts"]])
            answer["project_notes"] += f"\n- {text}"
        return answer

    writer = BankWriter(PERSONAS, copy)
    with gemini_server(writer.reply) as server:
        run(*arguments_for(server, out))
    assert Counter(writer.asked)[copier.task_id] == 2
    assert manifest(out)["faults"] == {"duplicate": 1, "shape": 1}
    assert sum(text in json.dumps(task.to_row()["fixes"]) or text in task.resume
               for task in read_jsonl(out)) == 1  # fmt: skip


# Interruptions


def requests(server: Loopback, out: Path, whole: bytes, *more: object) -> list[int]:
    """Run the command again to its end; the sorted numbers of times that each request came."""
    assert not out.exists()
    run(*arguments_for(server, out, *more))
    assert out.read_bytes() == whole
    beside = ("tasks.jsonl", "tasks.jsonl.manifest.json", "tasks.jsonl.store.sqlite")
    assert names(out) == ["tasks.card.md", *beside]
    sent = Counter(json.dumps(body, sort_keys=True) for body in server.requests)
    return sorted(sent.values())


def test_an_interrupted_run_resumes(
    out: Path, whole: bytes, capsys: Any, request: pytest.FixtureRequest
) -> None:
    thread = threading.main_thread().ident
    assert thread is not None

    def interrupt(number: int) -> None:
        if number == 4:
            signal.pthread_kill(thread, signal.SIGINT)

    # who was started in the background of a shell ignores the signal
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    writer = BankWriter(PERSONAS, stumble, interrupt)
    with gemini_server(writer.reply, delay_s=0.05) as server:
        with pytest.raises(KeyboardInterrupt):
            run(*arguments_for(server, out, "--width", 3))
        assert " of 7 tasks are stored; repeat the command to continue" in capsys.readouterr().err
        assert len(server.requests) < 10
        counts = requests(server, out, whole, "--width", 3)
    assert sum(counts) <= 10 + 3, "only what was on its way is sent again"


def test_a_killed_run_resumes(out: Path, whole: bytes) -> None:
    width = 3
    victim: subprocess.Popen[bytes]

    def kill(number: int) -> None:
        if number == 6:
            victim.kill()
            victim.wait()

    with gemini_server(BankWriter(PERSONAS, stumble, kill).reply) as server:
        arguments = map(str, arguments_for(server, out, "--width", width))
        script = "import sys; from resume_gym.cli import main; sys.exit(main(sys.argv[1:]))"
        command = [sys.executable, "-c", script, "data", "generate", *arguments]
        victim = subprocess.Popen(command)
        assert victim.wait(60) == -signal.SIGKILL
        counts = requests(server, out, whole, "--width", width)
    assert 10 + 1 <= sum(counts) <= 10 + width


# Existing files


def test_a_finished_run_sends_no_request_and_a_larger_one_only_new_ones(
    out: Path, capsys: Any
) -> None:
    with gemini_server(BankWriter(PERSONAS).reply) as server:
        run(*arguments_for(server, out, count=3))
        before = out.read_bytes(), manifest(out)
        run(*arguments_for(server, out, count=3))
        assert len(server.requests) == 3
        assert (out.read_bytes(), manifest(out)) == before
        assert f"{out} already exists, with 3 of 3 tasks\n" in capsys.readouterr().out
        run(*arguments_for(server, out, count=5))
    assert len(server.requests) == 5
    assert out.read_bytes().startswith(before[0])
    assert manifest(out)["tasks"] == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("procedural", "--seed", 1), "was made with seed 0, not 1; choose another --out"),
        (("gemini",), "was made with generator 'procedural', not 'gemini'"),
        (("procedural", "--count", 5), "was made with --count 6; expected at least this number"),
    ],
)
def test_other_settings_neither_mix_nor_shrink_a_file(
    arguments: tuple[object, ...], message: str, out: Path
) -> None:
    out.write_text("mine\n")
    with pytest.raises(TaskError, match="exists, but has no manifest that says how it was made"):
        run("--generator", "procedural", "--count", 6, "--out", out)
    assert out.read_text() == "mine\n"
    out.unlink()
    run("--generator", "procedural", "--count", 6, "--out", out)
    made = out.read_bytes()
    with pytest.raises(TaskError, match=message):
        run("--count", 6, "--out", out, "--generator", *arguments)
    assert out.read_bytes() == made


@pytest.mark.parametrize("count", [6, 8])
def test_a_file_that_was_cut_is_neither_complete_nor_overwritten(out: Path, count: int) -> None:
    run(*PROCEDURAL, "--count", 6, "--out", out)
    made = out.read_bytes()
    cut = b"".join(made.splitlines(keepends=True)[:2])
    out.write_bytes(cut)
    with pytest.raises(TaskError, match=r"was modified: its SHA-256 is not .*manifest\.json"):
        run(*PROCEDURAL, "--count", count, "--out", out)
    assert out.read_bytes() == cut
    out.unlink()
    run(*PROCEDURAL, "--count", 6, "--out", out)
    assert out.read_bytes() == made


@pytest.mark.parametrize("writer", ["corpus.card.write_card", "synthesis.task_file.write_manifest"])
def test_a_run_killed_at_its_end_resumes(
    out: Path, writer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(f"resume_gym.{writer}", killed)
        with pytest.raises(KeyboardInterrupt):
            run(*PROCEDURAL, "--count", 3, "--out", out)
    run(*PROCEDURAL, "--count", 3, "--out", out)
    assert names(out) == ["tasks.card.md", "tasks.jsonl", "tasks.jsonl.manifest.json"]
    assert len(read_jsonl(out)) == 3


def test_a_run_that_makes_no_task_fails(out: Path, capsys: Any) -> None:
    with openai_server(lambda body: "{}") as server:
        assert status(*arguments_for(server, out, "--attempts", 1, count=3)) == 1
        printed, errors = capsys.readouterr()
    assert "0 of 3 tasks\n" in printed
    assert "no task was generated" in errors


# User errors


def status(*arguments: object) -> int:
    """The exit status of `resume-gym data generate`."""
    return main(["data", "generate", *map(str, arguments)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["openai"], "expected --model"),
        (["gemini", "--size", "mini"], "--size mini: expected --generator procedural"),
        (["gemini", "--client", '{"speed": 9}'], "--client: expected options among"),
        (["procedural", "--out", "no/tasks.jsonl"], "there is no folder"),
        (["procedural", "--out", "."], "--out: expected a file, but '.' is a folder"),
    ],
)
def test_options_that_do_not_fit(
    arguments: list[str], message: str, out: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(out.parent)
    assert status("--count", 1, "--out", out, "--generator", *arguments) == 2
    assert message in capsys.readouterr().err
    assert not list(out.parent.iterdir())


@pytest.mark.parametrize("text", ["[]", "{", '{"temperature": NaN}'])
def test_options_of_the_client_are_an_object(text: str, out: Path, capsys: Any) -> None:
    with pytest.raises(SystemExit, match="2"):
        status("--generator", "gemini", "--client", text, "--count", 1, "--out", out)
    assert "--client: expected" in capsys.readouterr().err
