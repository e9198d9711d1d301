from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from conftest import BEST, make_task
from tiny import tiny_tokenizer

from learners.engines import Completion, Request, Sampling
from learners.rollout import Rollout, play
from learners.tokens import ChatTokens
from resume_gym import TOOLS, Rules, Task, Verdict, tool_call
from resume_gym.judges import JudgeError, JudgeUnavailable

CHAT = ChatTokens(tiny_tokenizer(), TOOLS)
RULES = Rules(max_turns=3)
REVIEW, SUBMIT = tool_call("review"), tool_call("submit")
EDIT = tool_call("str_replace", old="Helped build", new="Built")
CUT = "I think that I shall"
"""A turn that reaches the limit of tokens."""


@dataclass
class Scripted:
    """An engine that says what it is told to: a script for each episode, turn by turn."""

    scripts: Sequence[Sequence[str]]
    seeds: list[list[int]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    heard: dict[int, list[int]] = field(default_factory=dict)
    finished: int = 0
    gone: int = 0

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[Completion]:
        """The next turn of each; a conversation must go on where it was."""
        if not self.heard:
            self.seeds.append([])
        self.seeds[-1].append(sampling.seed)
        self.sizes.append(len(requests))
        said = []
        for key, ids in requests:
            before = self.heard.get(key, [])
            assert ids[: len(before)] == before
            turn = ids.count(CHAT.end) // 2 - 1  # system, user; then assistant and tool
            text = self.scripts[self.finished + key][turn]
            whole = CHAT.write(text)
            one = whole[:-1] if text == CUT else whole
            self.heard[key] = ids + one
            said.append(Completion(one, [-(turn + 1) / 4] * len(one)))
        return said

    def release(self, keys: Sequence[int]) -> None:
        """Each is released once; with the last one, the next chunk begins."""
        self.gone += len(keys)
        for key in keys:
            del self.heard[key]
        if not self.heard:
            self.finished, self.gone = self.finished + self.gone, 0


@dataclass
class FixedJudge:
    """Always the same verdict, or always a failure."""

    verdict: Verdict | JudgeError
    name: str = "fixed"
    asked: list[tuple[Task, str]] = field(default_factory=list)

    def judge(self, task: Task, revised: str) -> Verdict:
        """The verdict."""
        self.asked.append((task, revised))
        if isinstance(self.verdict, JudgeError):
            raise self.verdict
        return self.verdict


def run(
    tasks: Sequence[Task], scripts: Sequence[Sequence[str]], at_once: int = 128
) -> tuple[list[Rollout], Scripted, FixedJudge]:
    engine, judge = Scripted(scripts), FixedJudge(BEST)
    sampling = Sampling(1.0, 64, CHAT.end, 100)
    return play(tasks, RULES, engine, CHAT, judge, sampling, at_once), engine, judge


def test_an_episode_as_tokens() -> None:
    ((one,), _, judge) = run([make_task()], [[REVIEW, EDIT, SUBMIT]])
    session = one.session
    first, second, _ = (step.observation for _, step in session.state.transcript)
    assert one.prompt == CHAT.prompt(session.system_prompt, session.prompt)
    parts = [
        (CHAT.write(REVIEW), True),
        (CHAT.reply(first), False),
        (CHAT.write(EDIT), True),
        (CHAT.reply(second), False),
        (CHAT.write(SUBMIT), True),  # nothing is heard after the last turn
    ]
    assert one.response == [token for ids, _ in parts for token in ids]
    assert one.sampled == [sampled for ids, sampled in parts for _ in ids]
    known = {True: iter((-0.25, -0.5, -0.75)), False: iter((0.0, 0.0))}
    turns = [(next(known[sampled]), len(ids)) for ids, sampled in parts]
    assert one.logprobs == [logprob for logprob, n in turns for _ in range(n)]
    assert judge.asked == [(session.task, session.resume)]
    assert session.state.verdict == BEST
    assert "- Built a booking" in session.resume


def test_what_the_trainer_gets() -> None:
    ((one,), _, _) = run([make_task()], [[SUBMIT]])
    sample = one.sample(-1.25)
    assert (sample.group, sample.advantage) == (one.group, -1.25)
    assert (sample.prompt, sample.response) == (one.prompt, one.response)
    assert (sample.sampled, sample.logprobs) == (one.sampled, one.logprobs)


def test_a_turn_that_is_cut_off_gets_an_end_that_was_not_sampled() -> None:
    ((one,), _, _) = run([make_task()], [[CUT, EDIT, CUT]])
    (said, step), *_ = one.session.state.transcript
    assert (said, step.error) == (CUT, "no_call")
    cut = CHAT.write(CUT)
    n = len(cut)
    assert one.response[:n] == cut
    assert one.sampled[:n] == [True] * (n - 1) + [False]
    assert one.logprobs[:n] == [-0.25] * (n - 1) + [0.0]
    # the last turn ends the episode: nobody needs its end
    assert one.response[1 - n :] == cut[:-1]
    assert one.sampled[1 - n :] == [True] * (n - 1)


def test_neighbours_with_one_task_are_a_group() -> None:
    a, b = make_task(0), make_task(1)
    rollouts, engine, judge = run([a, a, b, b, a], [[SUBMIT]] * 5)
    assert [one.group for one in rollouts] == [0, 0, 1, 1, 2]
    assert rollouts[0].prompt is rollouts[1].prompt, "a prompt is made once a group"
    assert rollouts[0].prompt == rollouts[4].prompt != rollouts[2].prompt
    assert engine.sizes == [5]
    assert judge.asked == [], "an episode without an edit needs no judge"
    assert all(one.session.done for one in rollouts)


def test_episodes_end_in_their_own_time() -> None:
    scripts = [[SUBMIT], [REVIEW, SUBMIT], [REVIEW, EDIT, REVIEW], [EDIT, EDIT, SUBMIT]]
    rollouts, engine, judge = run([make_task()] * 4, scripts)
    assert engine.sizes == [4, 3, 2]
    assert engine.heard == {}, "every conversation is released"
    texts = [[text for text, _ in one.session.state.transcript] for one in rollouts]
    assert texts == scripts
    assert len(judge.asked) == 2
    assert play([], RULES, engine, CHAT, judge, Sampling(1.0, 64, CHAT.end, 0)) == []


@pytest.mark.parametrize(("at_once", "sizes"), [(2, [2, 2, 1]), (1, [1] * 5), (5, [5]), (9, [5])])
def test_chunks_run_one_after_another(at_once: int, sizes: list[int]) -> None:
    scripts = [[REVIEW, EDIT, REVIEW]] * 5
    rollouts, engine, judge = run([make_task()] * 5, scripts, at_once)
    assert engine.sizes == [size for size in sizes for _ in range(3)]
    assert [one.group for one in rollouts] == [0] * 5
    assert len(judge.asked) == 5
    # no two calls of the engine draw from one seed
    seeds = [seed for chunk in engine.seeds for seed in chunk]
    assert seeds[0] == 100
    assert len(set(seeds)) == len(seeds) == 3 * len(sizes)


def test_a_failure_of_the_judge_is_no_number() -> None:
    engine, judge = Scripted([[EDIT, SUBMIT]]), FixedJudge(JudgeUnavailable("busy"))
    with pytest.raises(JudgeUnavailable, match="busy"):
        play([make_task()], RULES, engine, CHAT, judge, Sampling(1.0, 64, CHAT.end, 0))
    assert len(judge.asked) == 1
