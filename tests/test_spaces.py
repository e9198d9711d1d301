import multiprocessing
import pickle
import tracemalloc
from copy import deepcopy

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import utils
from hypothesis import given
from hypothesis import strategies as st

from resume_gym.episode.spaces import UnicodeText

SPACE = UnicodeText(100)
valid = st.text(max_size=100).filter(SPACE.contains)


@pytest.mark.parametrize("text", ["", "a" * 100, "é語🙂\t\n\r\u2028", "\ue000"])
def test_holds_any_text_up_to_a_length(text: str) -> None:
    assert text in SPACE


@pytest.mark.parametrize("value", ["a" * 101, "\x00", "a\ud800", b"a", 3, None, ["a"], np.zeros(3)])
def test_contains_rejects_other_values(value: object) -> None:
    assert value not in SPACE


def test_samples_are_printable_texts_of_the_space_and_seeded() -> None:
    space = UnicodeText(30, seed=3)
    samples = [space.sample() for _ in range(300)]
    assert all(sample in space for sample in samples)
    assert {0, 30} <= set(map(len, samples))
    assert type(samples[0]) is str
    space.seed(3)
    assert [space.sample() for _ in range(300)] == samples
    with pytest.raises(ValueError, match="no mask"):
        space.sample(mask=np.ones(3))


def test_equality_pickling_and_repr() -> None:
    assert SPACE == UnicodeText(100) != UnicodeText(99)
    assert pickle.loads(pickle.dumps(SPACE)) == deepcopy(SPACE) == SPACE
    assert repr(SPACE) == "UnicodeText(100)"
    with pytest.raises(ValueError, match="max_length: expected a whole number >= 1, got 0"):
        UnicodeText(0)


def test_a_large_space_keeps_no_table_of_characters() -> None:
    """Gymnasium's Text keeps one, which is large for all of Unicode."""
    tracemalloc.start()
    batch = utils.batch_space(UnicodeText(1_000_000), 8)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1e6
    assert isinstance(batch, gym.spaces.Tuple)
    assert batch.sample() in batch


@given(st.lists(valid, min_size=1, max_size=4))
def test_texts_pass_through_shared_memory(texts: list[str]) -> None:
    memory = utils.create_shared_memory(SPACE, len(texts), multiprocessing)
    view = utils.read_from_shared_memory(SPACE, memory, len(texts))
    assert tuple(view) == ("",) * len(texts)
    for index, text in enumerate(texts):
        utils.write_to_shared_memory(SPACE, index, text, memory)
    copied = deepcopy(view)
    assert copied == tuple(view) == tuple(texts)
    assert view[:1] == tuple(texts[:1])
    utils.write_to_shared_memory(SPACE, 0, "later", memory)
    assert view[0] == "later"
    assert copied == tuple(texts)


def test_the_longest_text_in_the_widest_characters_fits() -> None:
    memory = utils.create_shared_memory(SPACE, 2, multiprocessing)
    for index in range(2):
        utils.write_to_shared_memory(SPACE, index, "🙂" * 100, memory)
    assert tuple(utils.read_from_shared_memory(SPACE, memory, 2)) == ("🙂" * 100,) * 2
