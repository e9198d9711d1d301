import numpy as np

from learners.rollouts.curriculum import HALF_LIFE, LEAST, weights


def test_without_a_history_sampling_is_uniform() -> None:
    assert weights([], 4, 1).tolist() == [1.0] * 4
    assert weights([(1, [(0, 0.0), (1, 0.0)])], 4, 2).tolist() == [1.0] * 4, "nothing differs yet"


def test_tasks_whose_groups_differ_are_drawn_more_often() -> None:
    history = [(step, [(0, 2.0), (1, 0.5), (2, 0.0)]) for step in range(1, 6)]
    found = weights(history, 4, 6)
    assert found[0] > 1 > found[1] > found[2] >= LEAST
    assert found[3] == 1, "nothing is known of it"


def test_the_scale_of_rewards_does_not_matter() -> None:
    groups = [(0, 2.0), (1, 0.5), (2, 0.0)]
    scaled = [(task, 100 * spread) for task, spread in groups]
    assert np.allclose(weights([(1, groups)], 4, 3), weights([(1, scaled)], 4, 3))


def test_that_spreads_shrink_as_a_policy_learns_does_not_matter() -> None:
    early = [(step, [(0, 4.0), (1, 1.0)]) for step in range(1, 50)]
    late = [(step, [(0, 0.1), (2, 0.4)]) for step in range(50, 60)]
    found = weights([*early, *late], 4, 60)
    assert found[2] > found[3] == 1


def test_old_rewards_are_forgotten() -> None:
    found = [weights([(1, [(0, 2.0), (1, 0.0)])], 2, 1 + later)[1] for later in (1, HALF_LIFE, 500)]
    assert found[0] < found[1] < found[2]
    assert found[2] > 0.99
    # more groups of a task say more of it
    often = weights([(1, [(0, 2.0), (1, 0.0)])] * 4, 2, 2)
    assert often[1] < found[0]
