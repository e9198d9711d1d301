"""The viewer's data; see `test_view_command.py` and `test_viewer_page.py`."""

import json
import shutil

import pytest
from viewer_runs import (
    EVIL,
    GROUP,
    RULES,
    STEPS,
    evil_task,
    packed,
    play,
    read,
    write_evaluation,
    write_run,
)

from examples.release_notes import RULES as NOTES_RULES
from examples.release_notes import Editor, NotesSession, make_release
from resume_gym import Session, tool_call
from resume_gym.apps.viewer import episode, html
from resume_gym.apps.viewer.data import FolderContents, UnreadableError
from resume_gym.apps.viewer.listing import Listing, open_folder
from resume_gym.apps.viewer.rows import make_row
from resume_gym.apps.viewer.tasks import Tasks, find_tasks
from resume_gym.episode.tasks import Task
from resume_gym.evaluation.results import row_of
from resume_gym.support.json_lines import seal
from resume_gym.support.trust import STARTED, remember
from resume_gym.support.user_errors import TaskError
from resume_gym.synthesis.procedural import generate_task


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return read(write_run(tmp_path_factory.mktemp("runs") / "a run"))


@pytest.fixture
def folder(tmp_path):
    return write_run(tmp_path / "run")


@pytest.fixture
def evaluation(tmp_path):
    return read(write_evaluation(tmp_path / "evaluation"))


def texts_of(shown):
    """The documents of an episode that is shown, each as it was."""
    lines = shown["documents"]["lines"]
    return ["\n".join(lines[one] for one in after) for after in shown["documents"]["after"]]


# --- one episode --------------------------------------------------------------------------------


@pytest.mark.parametrize("member", range(GROUP))
def test_turns_are_read_as_they_were_played(member):
    session = play(evil_task(0), member)
    shown = episode.episode(session.record(), session.task)
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


def test_turns_show_what_an_edit_was_worth():
    session = Session(Task("t", "job", "- Helped build boats\n", "weak_verbs"))
    for action in (tool_call("str_replace", old="Helped build", new="Built"), "Hello"):
        session.step(action)
    record = session.record()
    assert [turn.change for turn in episode.turns(record)] == [None, None]
    record["earned"] = [{"edit": 0.25, "clarity": 0.25, "layout": -1.0}, {"malformed": -0.25}]
    assert [turn.change for turn in episode.turns(record)] == [-0.75, None]


def test_a_comparison_is_shown_beside_the_reward():
    session = play(evil_task(0), 0)
    record = {**session.record(), "comparison": -0.5}
    shown = episode.episode(record, session.task)
    assert (shown["comparison"], shown["reward"]) == (-0.5, session.reward)
    assert episode.episode(session.record(), session.task)["comparison"] is None


def test_a_page_that_begins_like_an_error_is_not_an_error():
    resume = "error (not_found): of mine\nsubmitted\n"
    session = Session(Task("t", "job", resume, "weak_verbs"))
    session.step(tool_call("review"))
    (turn,) = episode.turns(session.record())
    assert (turn.kind, turn.error, turn.reply) == ("shown", "", resume.rstrip("\n"))


def test_a_record_of_an_earlier_version_opens_with_what_it_has():
    session = play(evil_task(0), 0)
    record = session.record()
    for name in ("original", "errors", "ledgers"):
        del record[name]
    alone = episode.episode(record, None)
    assert texts_of(alone) == [session.text.rstrip("\n")]
    assert "lacks the document before the edits" in alone["notes"][0]
    for turn, (action, step) in zip(alone["turns"], session.state.transcript, strict=True):
        assert (turn["kind"], turn["action"], turn["reply"]) == ("text", action, step.observation)
    row = make_row({"group": 0, "member": 0, **record}, 1, Tasks())
    assert (row.outcome, row.reward, row.edits) == ("submitted", session.reward, None)


# --- other domains ------------------------------------------------------------------------------


def test_another_domain_of_editing():
    release = make_release("train", 0)
    session = NotesSession(release, NOTES_RULES)
    number = release.draft.split("(#")[1].split(")")[0]
    session.step(tool_call("drop", entry=f"(#{number})"))
    session.step(tool_call("submit"))
    session.grade(Editor().judge(release, session.text))
    record = {**session.record(), "group": 3, "member": 1}
    tasks = find_tasks("examples.release_notes:ReleaseNotes-v0", "", True)
    row = make_row(record, 7, tasks)
    assert (row.weakness, row.outcome, row.edits) == (release.weakness, "submitted", 1)
    assert row.reward == session.reward
    assert "worse coverage" in row.flags
    shown = episode.episode(record, release)
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
    shown = episode.episode(record, None)
    assert [(one["kind"], one["reward"]) for one in shown["turns"]] == [
        ("text", 0.0),
        ("text", 1.5),
    ]
    assert shown["documents"]["after"] == []
    assert shown["text"] == "right"


def test_tasks_that_are_nowhere_are_a_note():
    for env, source in (("nowhere.at_all:Env-v0", ""), ("ResumeEdit-v0", "nowhere.jsonl")):
        tasks = find_tasks(env, source, True)
        assert env in tasks.note
        assert not tasks.by_id
    assert find_tasks("CartPole-v1", "", True) == Tasks()


def test_the_weakness_of_a_task_that_training_generated_is_known() -> None:
    made = generate_task(3, 1017, "train", "mini")
    assert find_tasks("ResumeEditMini-v0", "", True).weakness(made.task_id) == made.weakness
    assert find_tasks("ResumeEditMini-v0", "mini", True).weakness(made.task_id) == ""


# --- folders ------------------------------------------------------------------------------------


def test_several_calls_in_a_turn_are_a_flag_wherever_they_were_made():
    session = Session(evil_task(0), RULES)
    session.step(tool_call("review") * 2)
    session.step(tool_call("submit"))
    in_run = make_row({"group": 0, "member": 0, **session.record()}, 1, Tasks())
    evaluated = make_row(row_of("a", 0, session), None, Tasks())
    for row in (in_run, evaluated):
        assert {"malformed", "several calls"} <= set(row.flags)


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


def test_a_folder_that_grows_is_read_on(folder):
    results = FolderContents(folder)
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
    assert any("1 line of the" in note for note in results.index()["notes"])
    with file.open("a") as opened:
        opened.write(first[100:] + "\n")
    results.refresh()
    assert results.rows[2 * GROUP].outcome == "submitted"


def test_a_file_that_is_written_anew_is_read_anew(folder):
    results = read(folder)
    file = folder / "trajectories" / "step-000002.jsonl"
    content = file.read_text()
    one, two, *others = content.splitlines(keepends=True)
    version = results.version()
    file.unlink()
    results.refresh()
    assert {row.step for row in results.rows} == {1, 3}
    assert results.version() != version
    file.write_text(two)
    results.refresh()
    file.write_text("".join([two, one, *others]))
    results.refresh()
    assert len(results.rows) == STEPS * GROUP
    for number, row in enumerate(results.rows):
        assert results.record(number)["member"] == row.member
    assert results.damage() == []
    # between a refresh and a request
    file.write_text(content.replace(json.dumps("1 ")[:-1], json.dumps("7 ")[:-1]))
    changed = next(number for number, row in enumerate(results.rows) if row.step == 2)
    with pytest.raises(UnreadableError):
        results.record(changed)


def append(folder, *changes):
    """Add the first record of the last step again, with changes."""
    file = folder / "trajectories" / "step-000003.jsonl"
    record = json.loads(file.open().readline())
    with file.open("a") as opened:
        opened.writelines(json.dumps({**record, **one}) + "\n" for one in changes)


def test_missing_numbers_stay_none(folder):
    nan, infinity = float("nan"), float("inf")
    append(
        folder,
        {"member": 8, "reward": nan, "verdict": {"clarity": nan}},
        {"member": 9, "ledger": {"layout": infinity}},
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
    assert any("1 line of the" in note for note in index["notes"]), "member 9"
    assert [(one["step"], one["reward"]) for one in index["metrics"]] == [(1, None), (2, 1.0)]
    assert (index["settings"]["clip"], index["settings"]["day"]) == ("Infinity", "2026-11-22")


@pytest.mark.parametrize("wrong", [{"actions": None}, {"actions": [5]}, {"observations": None}])
def test_an_episode_that_makes_no_sense_takes_no_other_with_it(folder, tmp_path, wrong):
    append(folder, {"member": 9, **wrong})
    results = read(folder)
    number = len(results.rows) - 1
    with pytest.raises(UnreadableError):
        results.episode(number)
    assert html.export(results, tmp_path / "run.html") == 1
    assert packed(tmp_path / "run.html", "index")["chunks"].count(None) == 1


def nested(depth):
    return json.loads("[" * depth + "]" * depth)


def test_records_that_are_no_episodes_are_counted(folder):
    for wrong in (
        {"reward": 10**400},
        {"rules": {"page_width": 0, "page_lines": 20}},
        {"rules": {"page_width": 80, "page_lines": nested(900)}},
    ):
        append(folder, {"member": 9, **wrong})
    file = folder / "trajectories" / "step-000003.jsonl"
    huge = file.open().readline().replace('"reward": ', '"reward": 1e999, "was": ')
    with file.open("a") as opened:
        opened.writelines((huge, "[" * 100_000 + "\n"))
    results = read(folder)
    assert len(results.rows) == STEPS * GROUP
    assert any("5 lines" in note for note in results.index()["notes"])


def test_deep_nesting_is_an_error_of_one_file_or_one_episode(folder, tmp_path):
    append(folder, {"member": 9, "verdict": {"clarity": nested(900)}})
    results = read(folder)
    html.export(results, tmp_path / "run.html")  # whether it is too deep depends on the stack
    (folder / "before.json").write_text('{"reward": ' + "[" * 2000)
    with pytest.raises(TaskError, match=r"before\.json: expected less deeply nested JSON"):
        results.index()


def test_what_settings_of_others_name_is_not_followed(tmp_path):
    for env, source in (
        ("examples.release_notes:ReleaseNotes-v0", ""),
        ("ResumeEdit-v0", "hf://owner/name"),
        ("ResumeEdit-v0", "procedural:1:1001"),
        ("ResumeEdit-v0", "procedural-mini:1:100000000"),
        ("ResumeEdit-v0", "/dev/zero"),
        ("ResumeEdit-v0", str(tmp_path)),
    ):
        tasks = find_tasks(env, source, trusted=False)
        assert tasks.by_id == {}
        assert "--trust-remote-code" in tasks.note
    for source in ("procedural:1:2", "omission:1:2", "mini", ""):
        assert find_tasks("ResumeEdit-v0", source, trusted=False).by_id


@pytest.mark.parametrize("name", ["config.toml", "trajectories/step-000001.jsonl"])
def test_a_link_out_of_a_folder_is_followed_only_with_trust(folder, tmp_path, name):
    (folder / STARTED).unlink()
    (folder / name).rename(tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TaskError, match=f"{name}: expected a file in the folder, got a link"):
        read(folder).index()
    results = FolderContents(folder, trusted=True)
    results.refresh()
    assert len(results.rows) == STEPS * GROUP
    if name != "config.toml":  # which says whose run it is
        remember(folder, results.index()["settings"])
        assert read(folder).index() == results.index()


def test_episodes_of_evaluations_stand_apart_from_those_of_the_step(folder):
    file = folder / "trajectories" / "step-000002.jsonl"
    shutil.copy(file, file.with_name("eval-000002.jsonl"))
    before = json.loads((folder / "before.json").read_text())
    rows = [{"step": 0, "versions": [0, 0], **before}, {"step": 2, "reward": 1.5}]
    lines = [json.dumps(row) + "\n" for row in rows]
    (folder / "evaluations.jsonl").write_text("".join(lines))
    results = read(folder)
    held_out = [row for row in results.rows if "held-out" in row.flags]
    assert len(held_out) == GROUP
    assert {row.step for row in held_out} == {2}
    assert len(results.rows) == (STEPS + 1) * GROUP
    assert len({row.group for row in results.rows}) == STEPS + 1
    assert list(results.index()["figures"]) == ["before", "step 2"]
    (folder / "floor.json").write_text(json.dumps(before))
    results.refresh()
    assert list(results.index()["figures"]) == ["before", "step 2", "floor"]


def test_an_episode_without_a_verdict_has_no_number(evaluation):
    failed = evaluation.rows[-1]
    assert (failed.outcome, failed.reward, failed.score) == ("not graded", None, None)
    assert evaluation.episode(len(evaluation.rows) - 1)["failure"] == f"no verdict: {EVIL}"
    index = evaluation.index()
    assert index["figures"]["good"]["episodes"] == 6
    assert "nowhere.jsonl" in index["notes"][0]


def test_an_agent_without_any_number_has_no_figures(evaluation):
    file = evaluation.path / "evaluation.json"
    told = json.loads(file.read_text())
    told["agents"]["dead"] = {"spec": "dead", "summary": None, "statistics": None}
    file.write_text(json.dumps(told))
    index = read(evaluation.path).index()
    assert list(index["figures"]) == list(index["statistics"]) == ["good", "bad"]


@pytest.mark.parametrize("name", ["metrics.jsonl", "evaluations.jsonl"])
def test_a_step_that_was_changed_or_repeated_is_a_note(folder, name):
    rows = [{"step": step, "reward": 2.0} for step in (1, 2, 3, 3, -1)]
    lines = [seal(row) for row in rows]
    lines[1] = lines[1].replace("2.0", "8.0")
    lines.append('{"step": 6, "rew')
    (folder / name).write_text("\n".join(lines))
    index = read(folder).index()
    told = [note for note in index["notes"] if name in note]
    assert [note.partition(" is")[0] for note in told] == [
        f"{name}, line {number}" for number in (2, 4, 5, 6)
    ]
    assert "the checksum does not match the content" in told[0]
    shown = str(index["metrics"]) + str(index["figures"])
    assert "8.0" not in shown
    assert "sha256" not in shown


def test_changed_and_missing_episodes_are_notes(tmp_path):
    evaluation = write_evaluation(tmp_path / "result")
    file = evaluation / "episodes.jsonl"
    first, *rest = file.read_text().splitlines()
    changed = seal(json.loads(first)).replace('"task_id": "task-', '"task_id": "task-1')
    file.write_text("\n".join([changed, *rest[:-1], rest[-1][:-9]]))
    results = read(evaluation)
    damaged, cut, *others = results.damage()
    assert "episodes.jsonl, line 1: the checksum does not match the" in damaged
    assert cut == "The last line of episodes.jsonl is incomplete."
    assert "good has a mean reward of" in others[0]
    assert len(results.rows) == len(rest) - 1
    file.write_text("".join(line + "\n" for line in (first, *rest)))
    assert read(evaluation).damage() == []
    file.write_text("".join(line + "\n" for line in rest))
    (note,) = read(evaluation).damage()
    assert "mean reward" in note
    (evaluation / "evaluation.json").write_text('{"agents": [1]}')
    with pytest.raises(TaskError, match=r"evaluation.json: agents: expected an object, got \[1\]"):
        read(evaluation)


# --- folders of folders -------------------------------------------------------------------------


def test_runs_and_evaluations_are_listed(tmp_path):
    run = write_run(tmp_path / f"a {EVIL}".replace("/", ""))
    write_evaluation(tmp_path / "result")
    file = tmp_path / "result" / "evaluation.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"floor": 4.5}))
    for name, text in (("broken", "[]"), ("strange", '{"agents": [1e999]}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "episodes.jsonl").touch()
        (tmp_path / name / "evaluation.json").write_text(text)
    (tmp_path / "empty").mkdir()
    listing = open_folder(tmp_path)
    assert isinstance(listing, Listing)
    rows = {row["name"].split()[0]: row for row in listing.index()["runs"]}
    assert set(rows) == {"a", "result", "broken", "strange"}
    assert rows["a"]["kind"] == "run"
    assert (rows["a"]["step"], rows["a"]["training"]) == (STEPS, STEPS / 2)
    before = json.loads((run / "before.json").read_text())
    assert (rows["a"]["reward"], rows["a"]["error"]) == (
        before["reward"],
        before["errors"]["reward"],
    )
    assert (rows["result"]["kind"], rows["result"]["model"]) == ("evaluation", "good, bad")
    assert (
        rows["result"]["reward"] == read(tmp_path / "result").index()["figures"]["good"]["reward"]
    )
    assert rows["result"]["floor"] == 4.5
    assert "expected an object" in rows["broken"]["problem"]
    assert rows["strange"]["problem"]


def test_stored_figures_that_differ_from_their_rows_are_notes_of_the_list(tmp_path):
    run, evaluation = write_run(tmp_path / "run"), write_evaluation(tmp_path / "result")
    assert [row["notes"] for row in open_folder(tmp_path).index()["runs"]] == [[], []]
    before = json.loads((run / "before.json").read_text())
    rows = [seal({"step": STEPS, **before, "reward": 2.0}), seal({"step": 0, **before})]
    (run / "evaluations.jsonl").write_text("\n".join([*rows, ""]))
    (run / "after.json").write_text(json.dumps({**before, "reward": 9.99}))
    told = json.loads((evaluation / "evaluation.json").read_text())
    told["agents"]["good"]["summary"]["reward"] = 9.99
    (evaluation / "evaluation.json").write_text(json.dumps(told))
    notes = {row["name"]: row["notes"] for row in open_folder(tmp_path).index()["runs"]}
    assert notes["run"] == [f"after.json differs from evaluations.jsonl at step {STEPS}: reward."]
    assert "good has a mean reward of 9.99" in notes["result"][0]
    (run / "after.json").unlink()
    rewards = {row["name"]: row["reward"] for row in open_folder(tmp_path).index()["runs"]}
    assert rewards["run"] == 2.0


def test_tokens_and_seconds_are_those_of_each_turn():
    session = play(evil_task(0), 1)
    costs = [{"tokens_in": 9, "tokens_out": n, "seconds": 0.5} for n in range(3)]
    asked = [{"kind": "judge", "system": "s", "user": EVIL, "answer": "{}", "tokens_in": 1}]
    sampled = [True, False, True, True, False, True, True, True]
    record = session.record()
    for more, written in (
        ({"costs": costs, "asked": asked}, [0, 1, 2]),
        ({"tokens": {"sampled": sampled}}, [1, 2, 3]),
        ({"tokens": {"sampled": sampled[:4]}}, [None] * 3),  # not of these turns
        ({"costs": costs[:1]}, [0, None, None]),
    ):
        shown = episode.episode({**record, **more}, None)
        assert [turn.get("tokens_out") for turn in shown["turns"]] == written
        assert shown["asked"] == more.get("asked", [])
