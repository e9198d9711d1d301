import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import make_task
from scripted import CHAT, EDIT, REVIEW, SUBMIT
from test_rollout import run

from learners.config import ConfigError
from learners.rollouts.rollout import Rollout
from learners.rollouts.trajectories import Trajectories
from resume_gym import Rules, Session
from resume_gym.support.json_lines import seal


def planned(number: int = 0, members: int = 3) -> list[Rollout]:
    session = Session(make_task(number), Rules(max_turns=3))
    prompt = CHAT.prompt(session.system_prompt, session.prompt)
    return [Rollout(4, member, session.fork(), prompt) for member in range(members)]


def test_stored_episodes_are_loaded_and_the_others_remain(tmp_path: Path) -> None:
    kept = Trajectories(tmp_path / "trajectories")
    one, _ = run(REVIEW, EDIT, SUBMIT)  # group 4, member 2
    kept.append(9, one)
    first, second, third = kept.restore(9, planned())
    assert third.record() == one.record()
    assert not first.session.done
    assert not second.session.done
    assert kept.restore(8, planned())[2].response == []


def test_a_repeated_episode_is_stored_once(tmp_path: Path) -> None:
    kept = Trajectories(tmp_path)
    one, _ = run(EDIT, SUBMIT)
    kept.append(9, one)
    lines = kept.path(9).read_bytes()
    again = Trajectories(tmp_path)
    again.restore(9, planned())
    again.append(9, one)
    assert kept.path(9).read_bytes() == lines
    other, _ = run(SUBMIT)
    again.append(9, other)
    assert again.restore(9, planned())[2].record() == other.record()
    again.append(9, one)
    assert again.restore(9, planned())[2].record() == one.record(), "as it was before the other"


def test_rewards_come_in_order(tmp_path: Path) -> None:
    """Whoever ended first, what is drawn by them is the same to the last bit."""
    kept = Trajectories(tmp_path)
    one, _ = run(SUBMIT)
    state = one.session.state
    for reward, (one.group, one.member) in enumerate([(5, 0), (4, 1), (4, 0)]):
        one.session.restore(state._replace(reward=reward))
        kept.append(9, one)
    assert [one["reward"] for one in kept.graded(9)] == [2, 1, 0]


def test_a_line_that_was_cut_short_is_removed(tmp_path: Path) -> None:
    kept = Trajectories(tmp_path)
    one, _ = run(SUBMIT)
    kept.append(9, one)
    whole = kept.path(9).read_bytes()
    kept.path(9).write_bytes(whole + whole[:40])
    assert kept.restore(9, planned())[2].session.done
    assert kept.path(9).read_bytes() == whole
    one.member = 0
    kept.append(9, one)  # goes into a line of its own
    assert [kept.restore(9, planned())[i].session.done for i in range(3)] == [True, False, True]


def test_damaged_lines_are_removed_and_their_episodes_remain(tmp_path: Path) -> None:
    told: list[str] = []
    kept = Trajectories(tmp_path, told.append)
    one, _ = run(SUBMIT)
    for one.member in (0, 1, 2):
        kept.append(9, one)
    first, second, third, _ = kept.path(9).read_bytes().split(b"\n")
    record = one.record()
    record["tokens"]["logprobs"] = [value - 0.25 for value in one.logprobs]
    shifted = json.dumps(record).encode()
    resealed = shifted[:-1] + third[third.index(b', "sha256"') :]  # with the old checksum
    damaged = [b"\xff" + second[1:], third[:50], b'{"a": 1}', shifted, resealed]
    kept.path(9).write_bytes(b"\n".join([first, *damaged, b""]))
    restored = kept.restore(9, planned())
    assert [rollout.session.done for rollout in restored] == [True, False, False]
    assert told == ["Damaged lines removed from step-000009.jsonl: 5."]
    assert kept.path(9).read_bytes() == first + b"\n"
    assert len(kept.graded(9)) == len(told) == 1


def tokens(name: str, change: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any]]:
    return lambda record: {"tokens": record["tokens"] | {name: change(record["tokens"][name])}}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (tokens("prompt", lambda values: values[1:]), ".*: the stored prompt differs"),
        (tokens("logprobs", lambda values: values[1:]), "logprobs: expected .* values, got"),
        (tokens("response", lambda values: values[1:]), "sampled: expected .* values, got"),
        (tokens("logprobs", lambda values: [10**400, *values[1:]]), "logprobs: expected valid"),
        (tokens("response", lambda values: list(map(float, values))), "response: expected valid"),
        (tokens("sampled", lambda values: list(map(int, values))), "sampled: expected valid"),
        (tokens("versions", lambda values: [-2, *values[1:]]), "versions: expected valid"),
        (tokens("versions", lambda values: 3), ""),
        (lambda record: {"actions": [5]}, ""),
        (lambda record: {"reward": "high"}, ""),
        (lambda record: {"verdict": {"overall": "better"}}, ""),
        (lambda record: {"rules": []}, ""),
        (lambda record: {"tokens": None}, ""),
        (lambda record: {"task_id": "of another run"}, ""),
    ],
)
def test_wrong_values_in_a_whole_line_are_refused(
    change: Callable[[Any], dict[str, Any]], told: str, tmp_path: Path
) -> None:
    kept, record = Trajectories(tmp_path), run(SUBMIT)[0].record()
    kept.path(9).write_text(seal({**record, **change(record)}) + "\n")
    with pytest.raises(ConfigError, match=rf"-000009\.jsonl is from another run or step: {told}"):
        kept.restore(9, planned())
