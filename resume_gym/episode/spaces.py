"""A Gymnasium space of Unicode texts for vector environments.

`gymnasium.spaces.Text` requires a list of the allowed characters. With all characters of Unicode,
it takes seconds to create a `Text`, and a minute to batch it for a vector environment.
`UnicodeText` contains any text up to a maximum length. This module also registers functions with
Gymnasium that store texts in the shared memory of vector environments, and that return the empty
text as padding.
"""

import multiprocessing
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import (
    create_shared_memory,
    read_from_shared_memory,
    write_to_shared_memory,
)
from gymnasium.wrappers.utils import create_zero_array

from resume_gym.episode.tools import text_fault

# size in bytes of the header of each text in shared memory: the length of the text, as a uint32
_HEADER = 4
_PRINTABLE = [chr(code) for code in range(0x20, 0x7F)] + ["\n", "\t", "é", "ß", "語", "🙂"]


class UnicodeText(spaces.Space[str]):
    """Strings of at most `max_length` characters, without NUL characters or lone surrogates.

    Samples are short printable texts.
    """

    def __init__(self, max_length: int, seed: int | np.random.Generator | None = None) -> None:
        if max_length < 1:
            raise ValueError(f"max_length: expected a whole number >= 1, got {max_length}")
        self.max_length = max_length
        super().__init__(dtype=str, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """False: texts of different lengths cannot be flattened to arrays of one shape."""
        return False

    def sample(self, mask: object = None, probability: object = None) -> str:
        """Return a random text of at most 64 characters.

        Raises:
            ValueError: A mask or a probability is given.
        """
        if mask is not None or probability is not None:
            raise ValueError("UnicodeText.sample: expected no mask and no probability")
        length = int(self.np_random.integers(min(self.max_length, 64) + 1))
        return "".join(self.np_random.choice(_PRINTABLE, length))

    def contains(self, x: object) -> bool:
        """Return whether `x` is a text of this space."""
        return isinstance(x, str) and len(x) <= self.max_length and not text_fault(x)

    def __repr__(self) -> str:
        return f"UnicodeText({self.max_length})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnicodeText) and self.max_length == other.max_length


@create_zero_array.register(UnicodeText)
def _create_zero_text(space: UnicodeText) -> str:  # type: ignore[misc]
    return ""


class _SharedTexts(Sequence[str]):
    """View of the texts in shared memory; its deep copy is a tuple of the current strings.

    `AsyncVectorEnv` creates the view in its constructor, and deep-copies the view at each step.
    """

    def __init__(self, memory: Any, n: int) -> None:
        self._slots = np.frombuffer(memory.get_obj(), np.uint8).reshape(n, -1)

    def __len__(self) -> int:
        return len(self._slots)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple(self[place] for place in range(*index.indices(len(self))))
        slot = self._slots[index]
        size = int(slot[:_HEADER].view(np.uint32)[0])
        return slot[_HEADER : _HEADER + size].tobytes().decode()

    def __deepcopy__(self, memo: object) -> tuple[str, ...]:
        return tuple(self)


@create_shared_memory.register(UnicodeText)
def _create_shared_memory(space: UnicodeText, n: int = 1, ctx: Any = multiprocessing) -> Any:
    # a UTF-8 character takes at most 4 bytes; slot sizes are multiples of 4 to align the uint32
    return ctx.Array("B", n * (_HEADER + 4 * space.max_length))


@read_from_shared_memory.register(UnicodeText)
def _read_from_shared_memory(space: UnicodeText, shared_memory: object, n: int = 1) -> _SharedTexts:
    return _SharedTexts(shared_memory, n)


@write_to_shared_memory.register(UnicodeText)
def _write_to_shared_memory(space: UnicodeText, index: int, value: str, shared_memory: Any) -> None:
    data = value.encode()
    width = _HEADER + 4 * space.max_length
    slot = np.frombuffer(shared_memory.get_obj(), np.uint8)[index * width : (index + 1) * width]
    slot[:_HEADER].view(np.uint32)[0] = len(data)
    slot[_HEADER : _HEADER + len(data)] = np.frombuffer(data, np.uint8)
