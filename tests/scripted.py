"""An engine and a judge that do what they are told, for tests of what drives them."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from conftest import BEST
from tiny import tiny_tokenizer

from learners.engines import Completion, Sampling, Weights
from learners.rollouts.tokens import ChatTokens
from resume_gym import TOOLS, Task, Verdict, tool_call
from resume_gym.judges import JudgeError

CHAT = ChatTokens(tiny_tokenizer(), TOOLS)
REVIEW, SUBMIT = tool_call("review"), tool_call("submit")
EDIT = tool_call("str_replace", old="Helped build", new="Built")
CUT = "I think that I shall"
"""A turn that reaches the limit of tokens."""


@dataclass
class Scripted:
    """An engine that says what its scripts say: one for each conversation, turn by turn.

    Attributes:
        script: of a conversation's key.
        delay_s: of a conversation's key, before each of its turns.
        seeds: of all calls.
        temperatures: of all calls, each once.
        heard: what each conversation was at its last turn.
        gone: keys of conversations that were released, in that order.
        max_concurrency: as of every engine.
        repeatable: likewise.
        version: of all weights from now on.
    """

    script: Callable[[int], Sequence[str | Exception]]
    delay_s: Callable[[int], float] = lambda key: 0.0
    seeds: list[tuple[int, ...]] = field(default_factory=list)
    temperatures: set[float] = field(default_factory=set)
    heard: dict[int, list[int]] = field(default_factory=dict)
    gone: list[int] = field(default_factory=list)
    max_concurrency: int = 4096
    repeatable: bool = False
    version: int = 0
    together: int = 0
    most: int = 0

    async def generate(self, key: int, ids: Sequence[int], sampling: Sampling) -> Completion:
        """The next turn of a conversation, which must go on where it was."""
        before = self.heard.get(key, [])
        assert list(ids[: len(before)]) == before
        self.seeds.append(sampling.seed)
        self.temperatures.add(sampling.temperature)
        self.together += 1
        self.most = max(self.most, self.together)
        await asyncio.sleep(self.delay_s(key))
        self.together -= 1
        turn = list(ids).count(CHAT.end) // 2 - 1  # system, user; then assistant and tool
        text = self.script(key)[turn]
        if isinstance(text, Exception):
            raise text
        whole = CHAT.write(text)
        said = whole[:-1] if text == CUT else whole
        self.heard[key] = [*ids, *said]
        return Completion(said, [-(turn + 1) / 4] * len(said), [self.version] * len(said))

    def release(self, key: int) -> None:
        """Forget a conversation."""
        self.heard.pop(key, None)
        self.gone.append(key)

    def load_weights(self, version: int, source: Weights) -> None:
        """Take the version's number."""
        self.version = version

    def close(self) -> None:
        """Nothing to do."""


@dataclass
class FixedJudge:
    """A judge that answers always the same, or one after the other what it is told.

    Attributes:
        answers: verdicts, or failures; the last one for ever.
        seconds: that it takes, without giving way.
        asked: what it was asked about.
    """

    answers: Sequence[Verdict | JudgeError] = (BEST,)
    seconds: float = 0.0
    name: str = "fixed"
    asked: list[tuple[Task, str]] = field(default_factory=list)
    _turns: Iterator[int] = field(default_factory=count, repr=False)

    def judge(self, task: Task, revised: str) -> Verdict:
        """The next answer."""
        turn = next(self._turns)  # `len(self.asked)` may count the question of another thread
        self.asked.append((task, revised))
        time.sleep(self.seconds)
        answer = self.answers[min(turn, len(self.answers) - 1)]
        if isinstance(answer, JudgeError):
            raise answer
        return answer
