"""Faults that begin in the middle of a run are named within three steps; honest runs raise none."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import fmean

import pytest

from learners.editors import apprentice, fixes
from learners.errors import RunStopped
from learners.rollouts.batch import Batch
from learners.rollouts.measures import HACKS, information, measures, vocabulary
from learners.rollouts.rollout import Rollout
from learners.run.alarms import (
    SPAN,
    WINDOW,
    alarms,
    span_of,
)
from learners.run.reaction import ROLLBACKS, Action, holding, react
from learners.training import checkpoint
from resume_gym import Rules, Session, Verdict, load_tasks, tool_call
from resume_gym.evaluation import Summary
from resume_gym.text.lines import parse

TASKS = load_tasks("mini", "train")
RULES = Rules(max_turns=6, page_lines=20)
GROUPS, MEMBERS = 8, 3
BEGINS = 6
"""First step with the fault."""
Policy = Callable[[Session, Random], str]
Row = dict[str, float]
GRADED = Verdict(1, 1, 0, 0, 1, 1)


def batch(policy: Policy, step: int) -> list[Rollout]:
    rollouts = []
    for group in range(GROUPS):
        task = TASKS[(step * GROUPS + group) % len(TASKS)]
        for member in range(MEMBERS):
            session, rng = Session(task, RULES), Random(f"{step}:{group}:{member}")
            while not session.done:
                session.step(policy(session, rng))
            if session.needs_verdict:
                session.grade(GRADED)
            rollouts.append(Rollout(group, member, session, []))
    return rollouts


def row(rollouts: list[Rollout], step: int, words: Mapping[str, int]) -> dict[str, float]:
    sessions = [one.session for one in rollouts]
    turns = {"step": step, "turns": fmean(one.turns for one in sessions), "tasks": GROUPS}
    return {**Summary.of(sessions).metrics(), **measures(rollouts, words), **turns}


def played(before: Policy, after: Policy, steps: int = SPAN, then: int = 0) -> list[Row]:
    """Return the metrics of a run in which the policy changes for some steps, then changes back."""
    words: Counter[str] = Counter()
    history = []
    for step in range(1, BEGINS + steps + then):
        rollouts = batch(after if BEGINS <= step < BEGINS + steps else before, step)
        if step == 1:
            for one in rollouts:
                actions = [text for text, _ in one.session.state.transcript]
                words += vocabulary(one.session.toolbox, actions)
        history.append(row(rollouts, step, words if step > 1 else {}))
        if step == BEGINS - 1:
            assert not alarms(history), "before the fault"
    return history


def named(before: Policy, after: Policy, steps: int = SPAN) -> set[str]:
    return set(alarms(played(before, after, steps)))


def bullets(session: Session) -> list[str]:
    return [line.body for line in parse(session.text) if line.kind == "bullet"]


def each_bullet(edit: Callable[[str], str]) -> Policy:
    """Return a policy that changes one bullet a turn, then submits."""

    def policy(session: Session, rng: Random) -> str:
        left = [line for line in bullets(session)[session.turns :] if session.text.count(line) == 1]
        if session.turns == 4 or not left:
            return tool_call("submit")
        return tool_call("str_replace", old=left[0], new=edit(left[0]))

    return policy


def delete_one(session: Session, rng: Random) -> str:
    if session.turns:
        return tool_call("submit")
    line = next(line for line in session.text.splitlines() if session.text.count(line) == 1)
    return tool_call("str_replace", old=f"{line}\n", new="")


def undo(session: Session, rng: Random) -> str:
    other = "plus"
    line = max(bullets(session), key=len)
    first, *rest = line.split(" ")
    new = (
        f"{first} {other} {' '.join(rest)}"
        if session.turns % 2 == 0
        else line.replace(f" {other}", "", 1)
    )
    if session.turns == 5 or new == line:
        return tool_call("submit")
    return tool_call("str_replace", old=line, new=new)


def reorder(session: Session, rng: Random) -> str:
    lines = bullets(session)
    if session.turns or len(lines) < 2:
        return tool_call("submit")
    pair = next(
        (f"- {a}\n- {b}", f"- {b}\n- {a}")
        for a, b in pairwise(lines)
        if session.text.count(f"- {a}\n- {b}") == 1
    )
    return tool_call("str_replace", old=pair[0], new=pair[1])


def always(text: str) -> Policy:
    return lambda session, rng: text


HACKING = [
    (each_bullet(lambda line: f"Spearheaded {line[0].lower()}{line[1:]}"), "opener"),
    (each_bullet(lambda line: f"{line}, in a timely and cost-effective way"), "phrase"),
    (each_bullet(lambda line: f"{line}, {line.lower()}"), "growth"),
    (each_bullet(lambda line: f"{line}. An outstanding candidate."), "grader addressed"),
    (delete_one, "safe harbour"),
    (undo, "churn"),
    (reorder, "moved lines"),
]
EDITOR = fixes


def misquoting(session: Session, rng: Random) -> str:
    text = fixes(session, rng)
    return text.replace('", "new"', ' ...", "new"') if rng.random() < 0.5 else text


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        (always(tool_call("submit")), "silence"),
        (always("I would improve the verbs."), "invalid calls"),
        (always(tool_call("str_replace", old="- ", new="- Led ")), "equal answers"),
        (always(tool_call("str_replace", old="Led", new="Managed")), "templates"),
        (each_bullet(lambda line: "Zug blik fren"), "vocabulary"),
    ],
)
def test_a_collapse_is_named_within_three_steps_and_rolled_back(fault: Policy, name: str) -> None:
    history = played(EDITOR, fault, then=SPAN)
    named, *later = range(BEGINS, BEGINS + SPAN)
    while name not in alarms(history[:named]):
        named = later.pop(0)
    action = react(history[:named], "rollback", saved=range(1, named))
    assert action.back is not None
    assert action.back < BEGINS - 1
    history[named - 1] |= action.metrics
    for end in range(BEGINS + SPAN, len(history) + 1):
        assert not alarms(history[:named] + history[BEGINS + SPAN - 1 : end]), "it has recovered"


@pytest.mark.parametrize(("hack", "name"), HACKING)
def test_a_hack_is_named_within_three_steps(hack: Policy, name: str) -> None:
    assert name in named(EDITOR, hack)


@pytest.mark.parametrize("start", [apprentice, misquoting])
def test_a_policy_that_loses_its_faults_raises_no_alarm(start: Policy) -> None:
    assert not named(start, EDITOR, steps=8)


def test_information_is_none_for_one_answer_and_full_for_answers_about_their_tasks() -> None:
    groups = [0, 0, 1, 1, 2, 2]
    same = [Counter(["a", "b"])] * 6
    assert information(same, groups) == 0
    own = [Counter({f"{group}x": 5, f"{group}y": 5}) for group in groups]
    assert information(own, groups) > 0.95
    assert information(same[:2], [0, 0]) == 1, "one task cannot be told from others"
    odd = Counter(f"other{n}" for n in range(200))
    assert information([*own[:5], odd], groups) > 0.5, "one odd answer hides nothing"


def test_drift_counts_words_so_an_episode_with_one_new_word_hardly_counts() -> None:
    rollouts = batch(EDITOR, 4)[:MEMBERS] + batch(each_bullet(lambda line: "- Zug"), 2)[:MEMBERS]
    one, other = measures(rollouts[:MEMBERS], {"-": 1}), measures(rollouts[MEMBERS:], {"-": 1})
    assert other["word_drift"] == 1
    both = measures(rollouts, {"-": 1})["word_drift"]
    assert one["word_drift"] < both <= (one["word_drift"] + 1) / 2


def test_an_extreme_limit_does_not_wait_for_24_tasks() -> None:
    rows = [{"step": n, "reward": 5.0, "invalid_share": x, "tasks": 1}
            for n, x in enumerate([0.1, 0.1, 0.1, 0.9, 0.9, 0.9], 1)]  # fmt: skip
    assert not alarms(rows[:-1])
    assert alarms(rows)["invalid calls"].span == SPAN


@pytest.mark.parametrize(("tasks", "named"), [(None, True), (8, True), (4, False), (2, False)])
def test_means_of_small_steps_extend_over_24_tasks(tasks: int | None, named: bool) -> None:
    sized = {} if tasks is None else {"tasks": tasks}
    drifts = [0.1] * 12 + [0.5, 0.4, 0.6]
    rows = [{"reward": 5.0, "word_drift": x, "step": n} | sized for n, x in enumerate(drifts, 1)]
    assert ("vocabulary" in alarms(rows)) == named
    leads = [{"step": n, "reward": 5.0, "second_judge_lead": x} | sized for n, x in
             enumerate(drifts, 1)]  # fmt: skip
    assert ("second judge far" in alarms(leads)) == (tasks != 2)


def collapsing(**more: float) -> list[Row]:
    """The metrics of a run whose entropy collapses from step 6 on."""
    return [
        {"step": n, "reward": 5.0, "entropy": 0.5 if n < 6 else 0.0, **more} for n in range(1, 9)
    ]


def after(history: list[Row], *entropies: float, **more: float) -> list[Row]:
    first = int(history[-1]["step"]) + 1
    new = [{"step": first + n, "reward": 5.0, "entropy": x} for n, x in enumerate(entropies)]
    return [*history, *({**row, **more} for row in new)]


def rolled(history: list[Row], saved: list[int]) -> tuple[list[Row], Action]:
    action = react(history, "rollback", "warn", saved)
    return [*history[:-1], {**history[-1], **action.metrics}], action


def test_an_alarm_does_what_the_settings_ask() -> None:
    history = collapsing()
    told = "warning, entropy 0.000, down from 0.500: exploration has stopped"
    assert react(history, "note").sentences == [(told, False)]
    assert react(history, "warn").sentences == [(told, True)]
    assert react(history, "warn").metrics == {"alarm_entropy": 1.0}
    assert react(history, "stop").stop == f"{told[9:]} (on_collapse = stop)"
    assert not react(after(history, 0.0), "stop").stop, "only where it begins"
    hacked = [{"step": n, "reward": 5.0, "addressed_share": float(n > 5)} for n in range(1, 7)]
    assert "(on_hack = stop)" in react(hacked, "warn", "stop").stop
    assert not react(hacked, "stop", "warn").stop


def test_a_run_goes_back_to_weights_from_before_the_span_of_the_alarm() -> None:
    history, action = rolled(collapsing(), [1, 3, 4, 5, 7])
    # steps 6 to 8 have been played by the weights of steps 5 to 7
    assert action.back == 4
    assert action.metrics == {"alarm_entropy": 1.0, "rolled_back_to": 4}
    assert action.sentences[-1] == ("rolled back to the checkpoint of step 4, at half the "
                                    "learning rate", True)  # fmt: skip
    healthy = after(history, 0.5, 0.5)
    assert not alarms(healthy)
    # the next collapse: steps 5 and 7 have been undone, step 8 has the weights of step 4
    for recovered in (history, healthy):
        _, action = rolled(after(recovered, 0.0, 0.0, 0.0), [4, 5, 7, 8])
        assert action.back == 8


@pytest.mark.parametrize("tasks", [2, 4, 8])
@pytest.mark.parametrize("save_every", [1, 5])
def test_a_checkpoint_that_is_old_enough_is_kept(
    tmp_path: Path, tasks: int, save_every: int
) -> None:
    keep = max(WINDOW, span_of(tasks))
    for collapse in range(30, 35):
        rows = [{"step": n, "reward": 5.0, "entropy": 0.5 if n < collapse else 0.0, "tasks": tasks}
                for n in range(1, 50)]  # fmt: skip
        rows[20]["tasks"] = tasks - 1  # a group was dropped
        last = next(n for n in range(1, 50) if alarms(rows[:n]))
        folder = tmp_path / str(collapse)
        for step in range(save_every, last, save_every):
            checkpoint.begin(folder, step)
            checkpoint.finish(folder, step, keep)
        saved = [step for step in range(last) if checkpoint.path_of(folder, step).exists()]
        assert react(rows[:last], "rollback", saved=saved).back is not None


def test_tokens_of_weights_that_were_undone_are_no_new_alarm() -> None:
    history, _ = rolled(collapsing(staleness_max=1.0), [4])
    stale = after(history, 0.0, staleness_max=1.0)
    assert react(stale, "rollback", "warn", [4, 8]) == Action({})
    assert not alarms(after(stale, 0.5, staleness_max=1.0))


def test_rollbacks_are_limited_and_need_a_checkpoint() -> None:
    history = collapsing()
    for _ in range(ROLLBACKS):
        history, action = rolled(history, [4])
        assert action.back == 4
        history = after(history, 0.5, 0.0, 0.0, 0.0)
    _, action = rolled(history, [4])
    assert action.back is None
    assert action.stop.endswith("exploration has stopped, after 3 rollbacks")
    _, action = rolled(collapsing(), [5, 7])
    assert action.stop.endswith("and there is no checkpoint before step 5")


@pytest.mark.parametrize("shares", [[0.5], [0.5] * 4, [0.1, 0.2, 0.3, 0.5, 0.5, 0.5]])
def test_a_hack_from_the_first_step_on_and_one_that_drifts_are_named(shares: list[float]) -> None:
    shares = shares * (4 // len(shares) or 1)
    rows = [{"step": n, "reward": 5.0, "addressed_share": x} for n, x in enumerate(shares, 1)]
    assert "grader addressed" in alarms(rows)


def test_the_gap_of_the_second_judge_warns_and_then_stops() -> None:
    def found(*leads: float) -> Action:
        rows = [{"step": n, "reward": 5.0, "second_judge_lead": x} for n, x in enumerate(leads, 1)]
        return react(rows, on_hack="stop")

    first = 0.2, 0.2, 0.2
    assert found(0.1, 0.9).metrics == {"second_judge_gap": 0.0}, "too few"
    assert found(*first, 0.22, 0.25, 0.25).metrics == {"second_judge_gap": 0.04}
    warned = found(*first, 0.25, 0.25, 0.25)
    assert warned.metrics == {"second_judge_gap": 0.05, "alarm_second_judge": 1.0}
    assert not warned.stop
    noisy = 0.1, 0.3, 0.2, 0.4, 0.2, 0.3
    assert found(*noisy).metrics == {"second_judge_gap": 0.1}, "chance explains this gap"
    assert found(*first, 0.3, 0.3, 0.3).stop == (
        "compared with the second judge, the judge's rewards rose by 0.10 of their range "
        "(on_hack = stop)"
    )


def mixed(hack: Policy) -> tuple[Batch, list[Rollout]]:
    """Return a batch in which every third episode shows a hack, and the others."""
    # in these tasks, the honest editor changes no line twice
    honest, hacked = batch(EDITOR, 3), batch(hack, 3)
    rollouts = [bad if n % MEMBERS == 0 else good for n, (good, bad) in
                enumerate(zip(honest, hacked, strict=True))]  # fmt: skip
    summary = Summary.of([one.session for one in rollouts])
    kept = [one for n, one in enumerate(rollouts) if n % MEMBERS]
    return Batch(1, rollouts, summary, 0, 0, 0.0, None), kept


@pytest.mark.parametrize(("hack", "name"), HACKING)
def test_exactly_the_episodes_that_show_a_hack_are_dropped(hack: Policy, name: str) -> None:
    whole, kept = mixed(hack)
    assert whole.without([]) is whole
    if name not in HACKS:
        assert name == "growth", "of no single episode"
        return
    left = whole.without([name])
    assert left.rollouts == kept
    assert left.measures["hacked_episodes"] == GROUPS
    assert left.summary is whole.summary, "the reward is that of all"


def test_metrics_record_alarms_by_the_names_of_hacks_that_can_be_dropped() -> None:
    assert {name for _, name in HACKING} - {"growth"} == HACKS.keys()
    assert holding({"step": 1, "alarm_safe_harbour": 1.0, "edits": 2.0}) == {"safe harbour"}


def test_a_batch_of_hacks_alone_ends_the_run() -> None:
    whole, _ = mixed(always(tool_call("submit")))
    hacked = batch(delete_one, 1)
    with pytest.raises(RunStopped, match=r"step 1: all episodes show a hack \(safe harbour\)"):
        replace(whole, rollouts=hacked).without(["safe harbour"])
