"""The training loop: what it saves, evaluates and waits for, with parts that only take notes."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from learners.advantages import by_edit
from learners.aipo import train
from learners.config import Config
from learners.engines import EngineError
from learners.errors import RunStopped
from learners.planning.plan import evaluations
from learners.run.progress import milestones
from learners.run.reaction import Action
from learners.supervisor import due


class Parts:
    """Trainer, rollouts and report in one: `calls` is what the loop asked of them."""

    model = None
    finished = False

    def __init__(self, done: int, evaluated: set[int]) -> None:
        self.calls: list[tuple[str, Any]] = []
        self._done, self._evaluated = done, evaluated
        self._playing: list[int] = []
        self.state: Mapping[str, float] = {}

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: self.calls.append((name, args[0] if args else None))

    def resume(self) -> int:
        return self._done

    def react(self, step: int, metrics: Mapping[str, float]) -> Action:
        return Action({})

    def batch(self, step: int, dropped: Any = ()) -> SimpleNamespace:
        self.calls.append(("dropped", dropped))
        return SimpleNamespace(
            rewards=torch.tensor([1.0, step]),
            groups=torch.ones(2),
            metrics={},
            response_tokens=1,
            turns=[1, 2],
            earned=[[1.0], [0.5, step]],
            samples=lambda advantages, hinted: self.calls.extend(
                [("samples", advantages), ("hinted", hinted)]
            ),
        )

    def step(self, step: int, *args: Any) -> dict[str, float]:
        self.calls.append(("step", step))
        return {"feedback_gap": 1.0 / step if step < 15 else 1.0}

    def ended(self) -> None:
        return None

    def evaluated(self, step: int) -> bool:
        return step in self._evaluated

    def evaluate(self, step: int) -> None:
        self.calls.append(("evaluate", step))
        self._playing.append(step)

    def evaluations(self, ended: Any = (), *, wait: bool = False) -> list[tuple[int, None]]:
        """Return what has ended, as a source of rollouts; as a report, return nothing."""
        playing, self._playing = self._playing, [] if wait else self._playing
        return [(step, None) for step in playing] if wait else []

    @contextmanager
    def asleep(self) -> Iterator[None]:
        self.calls.append(("asleep", list(self._playing)))
        yield

    def result(self, when: str) -> None:
        return None

    def called(self, name: str) -> list[Any]:
        return [argument for call, argument in self.calls if call == name]


def played(config: Config, done: int = 0, evaluated: tuple[int, ...] = ()) -> Parts:
    parts = Parts(done, set(evaluated))
    train(config, parts, parts, parts)  # type: ignore[arg-type]
    return parts


def test_something_is_due_every_so_many_steps() -> None:
    assert [step for step in range(1, 10) if due(3, step)] == [3, 6, 9]
    assert not any(due(0, step) for step in range(9))


@pytest.mark.parametrize("steps", [6, 7])
def test_evaluated_steps_are_saved_and_none_is_played_twice(steps: int) -> None:
    config = Config(steps=steps, save_every=3, eval_every=2)
    parts = played(config, evaluated=(0,))
    assert parts.called("evaluate") == [0, 2, 4, 6, 7][: steps - 2]
    assert evaluations(config) == len(parts.called("evaluate"))  # what a dry run counts
    assert parts.called("save") == [2, 3, 4, 6, 7][: steps - 2]


def test_a_resumed_run_plays_an_evaluation_that_had_not_ended() -> None:
    config = Config(steps=6, eval_every=2)
    assert played(config, done=4).called("evaluate")[1:] == [4, 6]
    assert played(config, done=4, evaluated=(4,)).called("evaluate")[1:] == [6]
    # the end of a process cut it off
    assert played(config, done=5).called("evaluate")[1:] == [4, 6]
    assert played(config, done=5, evaluated=(4,)).called("evaluate")[1:] == [6]


def test_a_run_ends_early_with_a_checkpoint_an_export_and_its_evaluation() -> None:
    parts = Parts(0, {0})
    parts.ended = lambda: ("step", 4) in parts.calls  # type: ignore[attr-defined]
    parts.export = lambda folder, replace: parts.calls.append(("export", replace))  # type: ignore[attr-defined]
    train(Config(steps=9, save_every=5, eval_every=3), parts, parts, parts)  # type: ignore[arg-type]
    assert parts.called("evaluate") == [0, 3, 4]
    assert (parts.called("save"), parts.called("save_unsaved")) == ([3], [4])
    assert parts.called("export") == [True]


def test_weights_that_were_not_published_are_not_saved() -> None:
    parts = Parts(0, set())

    def publish(version: int) -> None:
        if version == 2:
            raise EngineError("gone")

    parts.publish = publish  # type: ignore[attr-defined]
    with pytest.raises(EngineError, match="gone"):
        train(Config(steps=3, save_every=1), parts, parts, parts)  # type: ignore[arg-type]
    assert parts.called("save") == [1]
    assert not parts.called("save_unsaved")


def test_an_alarm_drops_hacks_rolls_back_before_weights_are_published_or_stops() -> None:
    parts = Parts(0, set())
    parts.dropped = ["opener"]  # type: ignore[attr-defined]
    actions = {2: Action({}, back=1), 4: Action({}, stop="collapsed")}
    parts.react = lambda step, metrics: actions.get(step, Action({}))  # type: ignore[method-assign]
    with pytest.raises(RunStopped, match="step 4: collapsed"):
        train(Config(steps=6, save_every=5), parts, parts, parts)  # type: ignore[arg-type]
    assert parts.called("dropped") == [["opener"]] * 4
    order = [call for call in parts.calls if call[0] in ("roll_back", "publish", "save")]
    steps = [("roll_back", 1), ("publish", 2), ("save", 2), ("publish", 3), ("publish", 4)]
    assert order == [("publish", 0), ("publish", 1), *steps, ("save", 4)]


@pytest.mark.parametrize("colocated", [True, False])
def test_an_engine_sleeps_only_when_no_evaluation_needs_it(colocated: bool) -> None:
    changes: dict[str, Any] = {"engine": "vllm", "engine_urls": ("http://a:1",)}
    config = Config(steps=3, eval_every=1, colocated=colocated, max_staleness=0, **changes)
    asleep = played(config, evaluated=(0,)).called("asleep")
    assert asleep == ([[]] * 3 if colocated else [[], [1], [1, 2]])


def test_credit_by_edit_credits_what_the_turns_earned() -> None:
    parts = played(Config(steps=3, credit="edit"))
    batches = [parts.batch(step) for step in (1, 2, 3)]
    assert parts.called("samples") == [by_edit(one.earned, one.groups) for one in batches]


def test_feedback_ends_when_the_gap_no_longer_falls() -> None:
    parts = Parts(0, set())
    rows: list[Mapping[str, float]] = []
    parts.react = lambda step, metrics: rows.append({"reward": 1.0, **metrics}) or Action({})  # type: ignore[method-assign,func-returns-value]
    config = Config(steps=30, credit="edit", feedback_weight=0.5)
    train(config, parts, parts, parts)  # type: ignore[arg-type]
    weights = [row["feedback_weight"] for row in rows]
    last = weights.index(0.0)
    assert weights == [0.5] * last + [0.0] * (30 - last)
    assert parts.called("hinted") == [weight > 0 for weight in weights]
    assert 20 <= last < 30
    told = [milestones(rows[: step + 1]) for step in range(30)]
    assert [n for n, one in enumerate(told) if any("feedback has ended" in x for x in one)] == [
        last
    ]


@pytest.mark.parametrize(("loss", "size"), [("aipo", 1.0), ("grpo", 0.5**0.5)])
def test_credit_by_episode_is_the_same_on_all_turns(loss: str, size: float) -> None:
    parts = played(Config(steps=3, loss=loss, credit="episode"))  # type: ignore[arg-type]
    assert parts.called("samples")[2] == [[pytest.approx(-size)], [pytest.approx(size)] * 2]
    assert parts.state == {}
