import random
from statistics import fmean

from learners.run.progress import line, milestones, seconds_left
from learners.run.reaction import react


def history(**columns: list[float]) -> list[dict[str, float]]:
    rows = zip(*columns.values(), strict=True)
    base = {"reward": 0.0, "entropy": 1.0}
    return [
        {**base, "step": step, **dict(zip(columns, row, strict=True))}
        for step, row in enumerate(rows, 1)
    ]


def sentences(rows: list[dict[str, float]]) -> list[str]:
    """Return all sentences during a run."""
    told = []
    for n in range(1, len(rows) + 1):
        warnings = [text for text, _ in react(rows[:n]).sentences]
        told += [f"Step {n}: {text}." for text in (*milestones(rows[:n]), *warnings)]
    return told


def test_milestones_are_reported_once() -> None:
    rows = history(
        submit_rate=[0.3, 0.6, 0.95, 0.4, 0.97],
        failed_share=[0.4, 0.3, 0.09, 0.2, 0.05],
        layout_pass=[0.95, 0.8, 0.95, 0.8, 0.95],
    )
    assert sentences(rows) == [
        "Step 2: the submit rate passed 50 %.",
        "Step 3: the submit rate passed 90 %.",
        "Step 3: fewer than 10 % of the edits fail.",
    ]


def test_a_best_reward_is_reported_at_each_half_point() -> None:
    rows = history(reward=[2.1, 2.3, 2.6, 2.7, 2.4, 2.6, 3.9])
    assert sentences(rows) == [
        "Step 3: mean reward 2.6, best so far.",
        "Step 7: mean reward 3.9, best so far.",
    ]


def test_a_collapse_of_the_reward_is_reported_when_it_begins() -> None:
    rows = history(reward=[5.1] * 6 + [3.0] * 8)
    assert sentences(rows) == ["Step 10: warning, mean reward collapsed to 3.4, down from 5.1."]


def collapsed(rewards: list[float]) -> bool:
    return any("collapsed" in one for one in sentences(history(reward=rewards)))


def batch(noise: random.Random, mean: float) -> float:
    """The mean reward of 2 groups of 4 episodes, whose tasks differ as much as they do."""
    tasks = [noise.gauss(mean, 2) for _ in range(2)]
    return fmean(noise.gauss(task, 2) for task in tasks for _ in range(4))


def test_the_noise_of_small_batches_is_no_collapse() -> None:
    noise = random.Random(0)
    assert not collapsed([2.2, 1.1, 2.5, 0.4])
    runs = [[batch(noise, 2) for _ in range(50)] for _ in range(200)]
    assert sum(map(collapsed, runs)) <= 2
    falling = [[batch(noise, 9 if step < 20 else 0) for step in range(50)] for _ in range(20)]
    assert all(map(collapsed, falling))


def test_a_collapse_of_the_entropy_and_a_gap_are_reported() -> None:
    rows = history(entropy=[0.5] * 3 + [0.01] * 8, gap=[0.001] * 10 + [0.2])
    assert sentences(rows) == [
        "Step 6: warning, entropy 0.010, down from 0.500: exploration has stopped.",
        "Step 11: warning, sampler and trainer differ by 0.041 in log-probability.",
    ]
    assert sentences(history(gap=[0.001, 0.2], staleness=[0.75, 0.75])) == [
        "Step 2: warning, sampler and trainer, whose weights are 0.8 steps apart, "
        "differ by 0.101 in log-probability."
    ]


def test_progress_is_a_line_a_step() -> None:
    row = {"step": 2, "reward": 0.5, "reward_std": 1.0, "tokens_per_s": 1234.5}
    text = line(row, 4, left_s=61.4)
    assert text.startswith("step 2/4  reward 0.50")
    assert "tokens/s 1,234" in text
    assert "judge tokens" not in text, "columns without values are hidden"
    assert text.endswith("left 0:01:01")
    assert line(row, 4, left_s=None) == text.removesuffix("  left 0:01:01")


def test_the_time_left_includes_the_evaluations_that_are_still_to_come() -> None:
    left = [seconds_left(step, 20, 10, step_s=1, evaluation_s=100) for step in (1, 9, 10, 11, 20)]
    assert left == [219, 211, 210, 109, 100]
    assert seconds_left(10, 20, 0, step_s=1, evaluation_s=100) == 110
