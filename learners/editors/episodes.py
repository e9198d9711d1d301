"""Episodes of scripted editors as training samples, in sessions with and without further tools."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from random import Random

from transformers import PreTrainedTokenizerBase

from learners.demonstrations import SLIPS, Act, demonstrations, one_turn, renamed, shorter, spoilt
from learners.editors.apprentice import apprentice, repairs
from learners.editors.edits import REPAIRS, choose
from learners.editors.hinted import hinted
from learners.editors.scripted import careful, fixes
from learners.rollouts.tokens import ChatTokens
from learners.training.models import load_tokenizer
from learners.training.rows import Sample
from resume_gym import Rules, Session, Task, tool_call
from resume_gym.episode.evidence import EvidenceSession
from resume_gym.episode.feedback import FeedbackSession
from resume_gym.synthesis.procedural import generate_task

EDITORS: dict[str, Act] = {
    "apprentice": apprentice,
    "repairs": repairs,
    "careful": careful,
    "fixes": fixes,
}
"""Editors that can be imitated, by name."""
_WITH_EVIDENCE, _WITH_EVIDENCE_IN_VAIN, _WITH_FEEDBACK = 0.6, 0.06, 0.08  # shares of sessions
_LARGE = 20  # one page in `_LARGE` is of full size
_REWORDED = 0.7
_EDITS = 24  # edits that are drawn on a page without instructions
_PLAYED = 5  # maximum number of edits made before these are drawn
_REVIEWED = 0.2  # share of such pages that are reviewed first


def episodes(
    editor: str,
    numbers: Iterable[int],
    seed: int,
    size: str,
    rules: Rules,
    model: str,
    each: int,
    replies: float,
) -> Iterator[list[Sample]]:
    """Yield the training samples of an episode on each generated task.

    See `edits_of_pages` for the samples of single pages.

    Args:
        editor: name of the editor, a key of `EDITORS`.
        numbers: numbers of the tasks.
        seed: seed of the tasks and of the editor.
        size: size of the pages; see `session_of`.
        rules: limits of an episode on a page of this size.
        model: model or folder whose tokenizer is used.
        each: number of actions that are drawn in each state.
        replies: weight of the tokens of replies; see `demonstrations`.
    """
    tokenizer = load_tokenizer(model)
    for number in numbers:
        session = session_of(editor, number, seed, size, rules)
        yield from samples(editor, tokenizer, session, each, replies, f"{seed}")


def edits_of_pages(
    editor: str, numbers: Iterable[int], seed: int, size: str, model: str
) -> Iterator[list[Sample]]:
    """Yield samples of many edits of the same page, without instructions.

    The samples teach a model to find on the page the text that it quotes. Each page has many edits,
    and most of the tokens belong to edits, compared with one fifth in an episode. Half of the pages
    are shortened. Up to `_PLAYED` calls and their replies precede the edits, since a model has to
    learn to quote after a reply as well.

    Args:
        editor: apprentice or repairs, whose edits are drawn at random.
        numbers: numbers of the tasks.
        seed: seed of the tasks and of the editor.
        size: size of the pages.
        model: model or folder whose tokenizer is used.
    """
    chat = ChatTokens(load_tokenizer(model), [])
    useful = 1.0 if editor == "repairs" else REPAIRS
    for number in numbers:
        task = generate_task(seed, number, "train", _size(number, size))
        rng = Random(f"{seed}:{task.task_id}")
        task = renamed(task, rng)
        played = rng.randint(0, _PLAYED)
        # so few turns are left afterwards that edits are drawn from the whole rest of the page
        session = Session(shorter(task, rng) if rng.random() < 0.5 else task, Rules(played + 3))
        prompt, before = chat.prompt("", session.resume), list[int]()
        for turn in range(played):
            edit = choose(session, rng, useful)
            call = edit.call if edit else tool_call("review")
            if turn == 0 and rng.random() < _REVIEWED:
                call = tool_call("review")
            elif rng.random() < SLIPS:
                call = spoilt(call, [one for one, _ in session.state.transcript], rng)
            before += [*chat.write(call), *chat.reply(session.step(call).observation)]
        drawn = Counter(edit.call for _ in range(_EDITS) if (edit := choose(session, rng, useful)))
        if drawn:  # no line may be left below the last edit
            yield [
                one_turn(prompt, before, chat.write(text), float(draws))
                for text, draws in drawn.items()
            ]


def session_of(editor: str, number: int, seed: int, size: str, rules: Rules) -> Session:
    """Return a new session on a generated task, some of whose words are renamed.

    Only the apprentice gets sessions with further tools.
    """
    own = _size(number, size)
    task = generate_task(seed, number, "train", own)
    task = renamed(task, Random(f"{seed}:{task.task_id}"))
    rules = rules if own == size else Rules()
    if editor != "apprentice":
        return Session(task, rules)
    return session_for(task, rules, Random(f"{seed}:{task.task_id}"))


def _size(number: int, size: str) -> str:
    """Return the size of a page: one in `_LARGE` mini pages is replaced by a full one.

    A model that never saw a token beyond the length of mini episodes cannot play full-size pages.
    """
    return "full" if size == "mini" and number % _LARGE == 0 else size


def samples(
    editor: str,
    tokenizer: PreTrainedTokenizerBase,
    session: Session,
    each: int,
    replies: float,
    seed: str,
    played: Sequence[str] = (),
) -> Iterator[list[Sample]]:
    """Yield the training samples of an editor's turns in one episode.

    Args:
        editor: name of the editor, a key of `EDITORS`; only the apprentice gets hints.
        tokenizer: the model's tokenizer.
        session: new session, which is played to its end.
        each: number of actions that are drawn in each state.
        replies: weight of the tokens of replies; see `demonstrations`.
        seed: seed of the editor.
        played: texts to play instead of the editor's actions, one for each turn. Then replies have
            no weight, and no hints are added, since they explain errors of the editor.
    """
    seed = f"{seed}:{session.task.task_id}"
    settings = chat_of(tokenizer, type(session)), [session], EDITORS[editor], each, seed
    if played:
        yield from demonstrations(*settings, play=lambda one, rng, answer: played[one.turns])
    elif editor == "apprentice":
        yield from demonstrations(*settings, replies, hinted)
    else:
        yield from demonstrations(*settings, replies)


@lru_cache(maxsize=8)
def chat_of(tokenizer: PreTrainedTokenizerBase, kind: type[Session]) -> ChatTokens:
    """Return the encoder of conversations in sessions of a class."""
    return ChatTokens(tokenizer, kind.toolbox.schemas)


def session_for(task: Task, rules: Rules, rng: Random) -> Session:
    """Return a session on a task: mostly a plain one, sometimes one with search or feedback.

    Most pages that lack figures get the tool `search`. Some lines need another repair before their
    figure can be added; on 70 % of the pages with search, this repair is already made.
    """
    lacks = any(fix.needs_evidence for fix in task.fixes)
    if task.evidence and rng.random() < (_WITH_EVIDENCE if lacks else _WITH_EVIDENCE_IN_VAIN):
        return EvidenceSession(_worded(task) if rng.random() < _REWORDED else task, rules)
    return (FeedbackSession if rng.random() < _WITH_FEEDBACK else Session)(task, rules)


def _worded(task: Task) -> Task:
    """Return the task with those fixes applied that must precede the addition of a figure."""
    plain = {fix.old for fix in task.fixes if fix.needs_evidence}
    done = [fix for fix in task.fixes if fix.new in plain and task.resume.count(fix.old) == 1]
    resume = task.resume
    for fix in done:
        resume = resume.replace(fix.old, fix.new)
    return replace(task, resume=resume, fixes=tuple(fix for fix in task.fixes if fix not in done))
