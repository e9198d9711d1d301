"""Search over the episodes of a folder, and the tasks that were played."""

import json
from dataclasses import replace

import pytest
from viewer_runs import (
    GROUP,
    RULES,
    evil_task,
    play,
    read,
    write_evaluation,
    write_run,
)

from resume_gym import Session, Task, tool_call
from resume_gym.apps.viewer import search as searching
from resume_gym.apps.viewer.played import played_tasks
from resume_gym.apps.viewer.search import search
from resume_gym.episode.tasks import write_jsonl
from resume_gym.support.json_lines import seal


def write_episodes(folder, *records):
    """An evaluation of one agent."""
    folder.mkdir()
    lines = [seal({"agent": "a", "rollout": 0, **one}) + "\n" for one in records]
    (folder / "episodes.jsonl").write_text("".join(lines))
    return folder


def edit(number, new, reason=""):
    session = Session(Task(f"t{number}", "a job", "- Helped build boats\n", "weak_verbs"), RULES)
    session.step(tool_call("str_replace", old="Helped build", new=new))
    session.step(tool_call("submit"))
    return session.record() | {"verdict": {"clarity": 1, "reasons": {"clarity": reason}}}


def places(folder, text):
    return {one["number"]: one["places"] for one in search(read(folder), text)["matches"]}


def test_every_text_of_an_episode_is_searched(tmp_path):
    episodes = edit(0, 'Led "the"\nteam', "Crème brûlée"), edit(1, "Built")
    folder = write_episodes(tmp_path / "a", *episodes)
    boats = ["reply 1", "final text", "task"]
    assert places(folder, "BOATS") == {0: boats, 1: boats}
    # as a reader sees it, not as JSON writes it, with any white space
    assert places(folder, 'led "the"  team') == {0: ["action 1", "final text"]}
    assert places(folder, "str_replace") == {0: ["action 1"], 1: ["action 1"]}
    assert places(folder, "turns left: 5") == {0: ["reply 1"], 1: ["reply 1"]}
    assert places(folder, "CRÈME BRÛLÉE") == {0: ["judge's reasons"]}
    assert places(folder, "t1") == {1: ["task"]}
    for nothing in ("", " ", "xyzzy", "Led team", ".*", '"new":'):
        assert places(folder, nothing) == {}


def test_what_only_the_task_says_is_found(tmp_path):
    task = replace(evil_task(0), job="Wanted: a zookeeper")
    write_jsonl(tmp_path / "tasks.jsonl", [task])
    settings = {"env": "ResumeEditMini-v0", "tasks": str(tmp_path / "tasks.jsonl")}
    folder = write_episodes(tmp_path / "a", play(task, 0).record(), edit(1, "Built"))
    (folder / "settings.json").write_text(json.dumps(settings))
    results = read(folder, trusted=True)
    assert b"zookeeper" not in results.line(0)
    [found] = search(results, "A ZOOKEEPER")["matches"]
    assert (found["number"], found["places"]) == (0, ["task"])


def test_a_match_has_the_text_around_it(tmp_path):
    long = "x" * 500
    folder = write_episodes(tmp_path / "a", edit(0, f"{long} Needle {long}"))
    [match] = search(read(folder), "needle")["matches"]
    assert match["found"] == "Needle"
    assert match["before"].endswith("xxx ")
    assert match["after"].startswith(" xxx")
    assert len(match["before"]) == len(match["after"]) < 100


def test_results_and_time_are_bounded_and_the_search_goes_on(tmp_path, monkeypatch):
    results = read(write_evaluation(tmp_path / "a", rollouts=4))
    whole = search(results, "str_replace")
    assert whole["next"] is None
    numbers = [one["number"] for one in whole["matches"]]
    monkeypatch.setattr(searching, "MATCHES", 5)
    first = search(results, "str_replace")
    assert [one["number"] for one in first["matches"]] == numbers[:5]
    rest = search(results, "str_replace", first["next"])
    assert [one["number"] for one in rest["matches"]] == numbers[5:10]
    # without any time left, each call reads one episode
    seen, start = [], 0
    while start is not None:
        part = search(results, "str_replace", start, seconds=-1.0)
        assert len(part["matches"]) <= 1
        seen += [one["number"] for one in part["matches"]]
        start = part["next"]
    assert seen == numbers
    assert search(results, "str_replace", 10**9) == {"matches": [], "next": None}


@pytest.mark.parametrize("wrong", [{"actions": [5]}, {"observations": None}])
def test_damaged_episodes_hide_no_others(tmp_path, wrong):
    folder = write_run(tmp_path / "run")
    file = folder / "trajectories" / "step-000001.jsonl"
    first, *rest = file.read_text().splitlines(keepends=True)
    file.write_text(json.dumps({**json.loads(first), **wrong}) + "\n" + "".join(rest))
    results = read(folder)
    found = [one["number"] for one in search(results, "submit")["matches"]]
    assert {0, 1} & {*found} == {1}
    file.unlink()  # between a refresh and a search
    assert min(one["number"] for one in search(results, "submit")["matches"]) >= GROUP


def test_tasks_that_were_played(tmp_path):
    one, two, other = (evil_task(number) for number in range(3))
    edited = replace(two, resume=two.resume + "- More\n")
    folders = {
        name: write_episodes(tmp_path / name, *(play(task, member).record() for task in tasks))
        for name, tasks, member in (
            ("a", (one, two), 0),
            ("b", (two, one, one), 3),  # another order, other actions
            ("c", (one, edited), 0),  # the same ID
            ("d", (one, other), 0),
        )
    }
    a, b, c, d = (played_tasks(read(folder)) for folder in folders.values())
    assert a == b
    assert len(a) == 2
    assert len({*a} & {*c}) == len({*a} & {*d}) == 1


def test_only_held_out_tasks_of_a_run_count(tmp_path):
    folder = write_run(tmp_path / "run")
    results = read(folder)
    assert played_tasks(results) == []
    steps = folder / "trajectories"
    first = steps / "eval-000000.jsonl"
    first.write_bytes((steps / "step-000001.jsonl").read_bytes())
    assert len(played_tasks(results)) == 1
    with first.open("ab") as file:  # it grows
        file.write((steps / "step-000002.jsonl").read_bytes() + b"{")
    assert len(played_tasks(results)) == 2
