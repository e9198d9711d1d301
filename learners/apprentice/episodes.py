"""Episodes of the apprentice as training samples, in sessions with and without further tools."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from random import Random

from transformers import PreTrainedTokenizerBase

from learners.apprentice.editor import act
from learners.apprentice.hinted import hinted
from learners.demonstrations import demonstrations, renamed, shorter
from learners.rollouts.tokens import ChatTokens
from learners.training.models import load_tokenizer
from learners.training.rows import Sample
from resume_gym import Rules, Session, Task
from resume_gym.episode.evidence import EvidenceSession
from resume_gym.episode.feedback import FeedbackSession
from resume_gym.synthesis.procedural import generate_task

_WITH_EVIDENCE, _WITH_EVIDENCE_IN_VAIN, _WITH_FEEDBACK = 0.6, 0.06, 0.08  # shares of sessions
_LARGE = 20  # one in so many pages is of full size
_REWORDED = 0.7


def episodes(
    numbers: Iterable[int],
    seed: int,
    size: str,
    rules: Rules,
    short: bool,
    model: str,
    each: int,
    replies: float,
) -> Iterator[list[Sample]]:
    """Yield the training samples of an episode on each generated task.

    Args:
        numbers: numbers of the tasks.
        seed: seed of the tasks and of the apprentice.
        size: size of the pages; one in `_LARGE` mini pages is replaced by a full one, since a model
            that never saw a token beyond the length of mini episodes cannot play full-size pages.
        rules: limits of an episode on a page of this size.
        short: whether lines that no fix needs are left out.
        model: model or folder whose tokenizer is used.
        each: number of actions that are drawn in each state.
        replies: weight of the tokens of replies; see `demonstrations`.
    """
    tokenizer = load_tokenizer(model)
    for number in numbers:
        large = size == "mini" and number % _LARGE == 0 and not short
        task = generate_task(seed, number, "train", "full" if large else size)
        task = renamed(task, Random(f"{seed}:{task.task_id}"))
        if short:
            task = shorter(task, Random(f"{seed}:{task.task_id}"))
        yield from samples(tokenizer, task, Rules() if large else rules, each, replies, f"{seed}")


def samples(
    tokenizer: PreTrainedTokenizerBase,
    task: Task,
    rules: Rules,
    each: int,
    replies: float,
    seed: str,
) -> Iterator[list[Sample]]:
    """Yield the training samples of the apprentice's turns in one episode on a task."""
    session = session_for(task, rules, Random(f"{seed}:{task.task_id}"))
    chat = _chat(tokenizer, type(session))
    yield from demonstrations(chat, [session], act, each, f"{seed}:{task.task_id}", replies, hinted)


@lru_cache(maxsize=8)
def _chat(tokenizer: PreTrainedTokenizerBase, kind: type[Session]) -> ChatTokens:
    return ChatTokens(tokenizer, kind.toolbox.schemas)


def session_for(task: Task, rules: Rules, rng: Random) -> Session:
    """Return a session on a task: mostly a plain one, sometimes one with search or feedback.

    Most pages that lack figures are given a search. Lines that also need another repair before
    their figure can be added have it already on half of these pages.
    """
    lacks = any(fix.needs_evidence for fix in task.fixes)
    if task.evidence and rng.random() < (_WITH_EVIDENCE if lacks else _WITH_EVIDENCE_IN_VAIN):
        return EvidenceSession(_worded(task) if rng.random() < _REWORDED else task, rules)
    return (FeedbackSession if rng.random() < _WITH_FEEDBACK else Session)(task, rules)


def _worded(task: Task) -> Task:
    """Return a task whose lines that lack a figure have been reworded already."""
    plain = {fix.old for fix in task.fixes if fix.needs_evidence}
    done = [fix for fix in task.fixes if fix.new in plain and task.resume.count(fix.old) == 1]
    resume = task.resume
    for fix in done:
        resume = resume.replace(fix.old, fix.new)
    return replace(task, resume=resume, fixes=tuple(fix for fix in task.fixes if fix not in done))
