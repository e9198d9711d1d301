from collections.abc import Callable
from threading import Event
from typing import Any

import gymnasium as gym
import pytest
import skyrl_generator
from players_skyrl import TASKS, TOKENIZER, generate, played
from scripts import SCRIPTS

from resume_gym import Task, TaskError, Verdict, tool_call
from resume_gym.integrations.skyrl import register, rows
from resume_gym.judges import JudgeUnavailable
from resume_gym.testing import ENV, Script, play_bare

REVIEW, SUBMIT = tool_call("review"), tool_call("submit")
CASTS = [tuple(script for script in SCRIPTS if script.task_id == task_id) for task_id in TASKS]


def actors(casts: list[tuple[Script, ...]]) -> Callable[[str], str]:
    """Rollout `0_1` is the second script of the first cast."""
    lines = {
        f"{row}_{member}": iter(script.actions)
        for row, cast in enumerate(casts)
        for member, script in enumerate(cast)
    }
    return lambda name: next(lines[name])


def test_the_example_prints_what_its_docstring_shows(capsys: pytest.CaptureFixture[str]) -> None:
    skyrl_generator.main()
    printed = capsys.readouterr().out
    assert printed.count("\n") == 11
    shown = "".join(f"    {line}\n" for line in printed.splitlines())
    assert shown in str(skyrl_generator.__doc__)


def test_members_of_many_groups_at_once_play_the_task_of_their_group() -> None:
    casts = [cast[:2] for cast in CASTS * 16]
    output = generate(TASKS * 16, 2, actors(casts))
    alone = [play_bare(script) for cast in casts for script in cast]
    assert [played(output, i) for i in range(64)] == alone
    mean = sum(episode.total for episode in alone) / 64
    assert output["rollout_metrics"]["environment/mean_episode_reward"] == pytest.approx(mean)


def test_the_trainer_gets_the_chat_as_the_template_writes_it_and_the_agents_turns() -> None:
    script = SCRIPTS[1]
    output = generate([script.task_id], 1, actors([(script,)]))
    session = gym.make(ENV).unwrapped.new_session(script.task_id)  # type: ignore[attr-defined]
    chat = [
        {"role": "system", "content": session.system_prompt},
        {"role": "user", "content": session.prompt},
    ]
    for text in script.actions:
        chat += [{"role": "assistant", "content": text}]
        chat += [{"role": "tool", "content": session.step(text).observation}]
    tools = list(session.tools)
    whole = TOKENIZER.apply_chat_template(chat[:-1], tools=tools, tokenize=False)
    ids, mask = output["response_ids"][0], output["loss_masks"][0]
    assert TOKENIZER.decode(output["prompt_token_ids"][0] + ids) == whole.removesuffix("\n")
    said = [token for token, on in zip(ids, mask, strict=True) if on]
    assert TOKENIZER.decode(said) == "".join(f"{text}<|im_end|>" for text in script.actions)


class Patient:
    """A judge who waits for another rollout: `judge="test_skyrl:Patient"`."""

    name = "patient"
    other_ended = Event()

    def judge(self, task: Task, revised: str) -> Verdict:
        if not self.other_ended.wait(timeout=30):
            raise JudgeUnavailable("the other rollout was held up")
        return Verdict(True, 0, 0, 0, 0, 1)


def test_a_judge_who_takes_long_holds_up_nobody_else() -> None:
    edit = tool_call("str_replace", old="Junction Rail", new="Junction Railway")
    lines = {"0_0": iter((edit, SUBMIT)), "1_0": iter((*[REVIEW] * 5, SUBMIT))}

    def speak(name: str) -> str:
        text = next(lines[name])
        if name == "1_0" and text == SUBMIT:
            Patient.other_ended.set()
        return text

    output = generate(TASKS, 1, speak, judge="test_skyrl:Patient")
    assert output["env_metrics"][0]["reward_preference"] == 1


def test_a_chat_that_outgrows_the_engine_is_cut_off_without_a_verdict() -> None:
    first = generate(TASKS[:1], 1, lambda _: SUBMIT)
    limit = len(first["prompt_token_ids"][0]) + 1
    cut = generate(TASKS[:1], 1, lambda _: REVIEW, f"generator.max_input_length={limit}")
    assert cut["stop_reasons"] == ["length"]
    assert cut["rollout_metrics"]["environment/mean_done"] == 0
    assert played(cut, 0).rewards == [1]


def test_registering_again_takes_the_place_of_the_first() -> None:
    three = played(generate(TASKS[:1], 1, lambda _: REVIEW, max_turns=3), 0)
    six = played(generate(TASKS[:1], 1, lambda _: REVIEW), 0)
    assert (len(three.rewards), len(six.rewards)) == (3, 6)


def test_what_cannot_be_played_is_refused() -> None:
    with pytest.raises(ValueError, match="judge"):
        register(ENV, judge="nobody")
    with pytest.raises(TaskError, match=TASKS[0]):
        generate(TASKS[:1], 1, lambda _: SUBMIT, split="eval")


def test_rows_of_any_environment_of_gymnasiums_name_it_and_their_tasks() -> None:
    made = rows("ResumeEdit-v0", split="eval", page_lines=40)
    env: Any = gym.make("ResumeEdit-v0", split="eval", page_lines=40).unwrapped
    assert [row["task_id"] for row in made] == [task.task_id for task in env.tasks]
    assert {row["env_class"] for row in made} == {"ResumeEdit-v0"}
    assert all("/40 | longest" in row["prompt"][1]["content"] for row in made)
