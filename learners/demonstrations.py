"""Demonstrations for imitation: the turns of a scripted editor as training samples.

`demonstrations` plays any editor; those for resumes are in `learners.editors`. `renamed` replaces
some words of most resumes, so that a policy cannot memorise the resumes.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

from learners.rollouts.tokens import ChatTokens
from learners.training.rows import Sample
from resume_gym import Task
from resume_gym.agents.edit_kinds import SYNONYMS
from resume_gym.agents.wording import LISTS
from resume_gym.episode.editing import AnySession
from resume_gym.episode.hints import beneath
from resume_gym.synthesis.procedural import generate_task
from resume_gym.synthesis.weaknesses import HEDGES
from resume_gym.text.lines import GLUE, LEXICON
from resume_gym.text.verbs import FRAMES

SLIPS = 0.2
"""Share of played turns that contain an error, so that policies learn to continue after errors."""
# maximum number of tokens in an excerpt; with 400, models took much longer to learn to copy
_EXCERPT = 64
_EXCERPTS = 8  # number of excerpts per resume

Act = Callable[[Any, Random], str]
"""Function that returns the text of an editor's next action in a running session."""
Hinted = Callable[[Any, Random, str], tuple[str, str] | None]
"""Function of a session, a random generator, and the intended text of the last call if it failed.

It returns a hint and the call that follows it, or None.
"""
Play = Callable[[Any, Random, str], str]
"""Function of a session, a random generator and the editor's answer; returns the played text."""
HINTS = 1 / 3
"""Probability of adding a hinted turn for each drawn turn; a quarter of all turns are hinted."""


def shortened(resume: str, old: str, new: str) -> tuple[str, str]:
    """Shorten an edit to the changed words and as many neighbours as make `old` unique in `resume`.

    The result begins with the space before its first word, if the resume has one there. Since
    byte-level BPE encodes a word together with this space, `old` then has the same tokens as the
    resume, and a model can copy them.

    >>> shortened("- Cut the costs", "- Cut the costs", "- Cut the costs by 5%")
    (' costs', ' costs by 5%')
    """
    if new and f" {old}" in resume:
        old, new = f" {old}", f" {new}"
    before, after = (re.findall(r"\s*\S+|\s+", text) for text in (old, new))
    least = min(len(before), len(after))
    head = next((n for n in range(least) if before[n] != after[n]), least)
    pairs = zip(reversed(before[head:]), reversed(after[head:]), strict=False)
    tail = next((n for n, (a, b) in enumerate(pairs) if a != b), least - head)
    while head or tail:
        parts = ["".join(words[head : len(words) - tail]) for words in (before, after)]
        quote, replacement = parts
        if quote.strip() and resume.count(quote) == 1:
            return quote, replacement
        head, tail = (head - 1, tail) if head else (head, tail - 1)
    return old, new


# Variations of resumes

_KEPT = frozenset(
    word
    for phrase in (
        *LEXICON["verbs"]["weak"],
        *HEDGES,
        *LISTS["fog"],
        *GLUE,
        *SYNONYMS,
        *SYNONYMS.values(),
        """summary profile about experience employment work history education academic training
        skills projects results certifications publications awards languages qualifications
        competencies achievements present selected january february march april june july august
        september october november december""",
    )
    for word in re.findall(r"[a-z]+", phrase.lower())
)
_WORD = re.compile(r"\b[A-Za-z][a-z]{3,}\b")
_INFLECTED = re.compile(r"([a-z]{3,})(ing|ed)")
_STEMS = sorted(
    {verb[:-2] for verbs in FRAMES.values() for verb in verbs if re.search("[^i]ed$", verb)}
)


def shorter(task: Task, rng: Random) -> Task:
    """Return a task with a shorter job posting and resume; the lines that fixes change are kept.

    Most tokens of a resume belong to lines without edits, so short resumes give more edits for the
    same computation. A task whose weakness is the resume's length is not changed.
    """
    if task.weakness == "too_long":
        return task
    share = rng.random() / 2
    parts = [part for fix in task.fixes for part in fix.old.split("\n") if part.strip()]

    def stays(line: str) -> bool:
        needed = not line or line.startswith("#") or any(part in line for part in parts)
        return needed or rng.random() < share

    resume = "\n".join(line for line in task.resume.split("\n") if stays(line))
    return replace(task, resume=resume, job=task.job[: rng.randrange(len(task.job) // 2)])


@cache
def _words() -> list[str]:
    """Return the words, from 200 generated resumes, that `renamed` can insert."""
    tasks = (generate_task(0, index, "train", "mini") for index in range(200))
    found = {word.lower() for task in tasks for word in _WORD.findall(task.resume)}
    return sorted(word for word in found - _KEPT if not _INFLECTED.fullmatch(word))


def renamed(task: Task, rng: Random) -> Task:
    """Return a task with random words replaced, in the same way in all texts of the task.

    A random share of the words is replaced: verbs in -ed or -ing by verbs in the same form, all
    other words by words of other resumes or by invented words. In half of the tasks with the
    weakness "too_long" no word is replaced, so that policies can learn from the words which lines
    are superfluous. A word that a fix removes or adds is kept, so that the fix stays correct; only
    the first word of the fix's `old` may be replaced. The -ed and -ing forms of a
    verb are replaced by those of one other verb.
    """
    kept = set(_KEPT)
    for fix in task.fixes:
        old, new = ({_key(word) for word in _WORD.findall(text)} for text in (fix.old, fix.new))
        # the first word of `old` is not kept: policies would memorise it as the start of a quote
        first = {_key(word) for word in _WORD.findall(fix.old)[:1]}
        kept |= {word for word, _ in (old ^ new) - first} if fix.new else set()
    share = rng.random()
    if task.weakness == "too_long":
        share = max(0.0, 2 * share - 1)
    texts = [task.resume, task.job, *(fix.new for fix in task.fixes)]
    names: dict[tuple[str, bool], str] = {}
    taken = {_key(word) for text in texts for word in _WORD.findall(text)}
    for key in sorted(taken):
        name, inflected = key
        if name in kept or rng.random() > share:
            continue
        other = rng.choice(_STEMS if inflected else _words())
        if not inflected and rng.random() < 0.5:
            other = other[: rng.randint(2, 5)] + rng.choice(_words())[-rng.randint(2, 5) :]
        # if two different words became the same word, a quote could occur twice in the resume
        if (other, inflected) not in taken:
            taken.add((other, inflected))
            names[key] = other

    def word(match: re.Match[str]) -> str:
        stem, inflected = _key(match[0])
        other = names.get((stem, inflected), stem)
        other += match[0][len(stem) :]
        return other.capitalize() if match[0][0].isupper() else other

    def text(of: str) -> str:
        return _WORD.sub(word, of)

    return replace(
        task,
        job=text(task.job),
        resume=text(task.resume),
        fixes=tuple(replace(fix, old=text(fix.old), new=text(fix.new)) for fix in task.fixes),
        evidence=tuple(replace(one, text=text(one.text)) for one in task.evidence),
    )


def _key(word: str) -> tuple[str, bool]:
    """Return (stem, True) for a word in -ing or -ed, and (word, False) for other words."""
    found = _INFLECTED.fullmatch(word.lower())
    return (found[1], True) if found else (word.lower(), False)


# Samples


def with_slips(session: AnySession, rng: Random, answer: str) -> str:
    """Return the editor's answer or, with the probability `SLIPS`, a faulty call."""
    if rng.random() < SLIPS:
        return spoilt(answer, [one for one, _ in session.state.transcript[1:]], rng)
    return answer


def demonstrations(
    chat: ChatTokens,
    sessions: Iterable[AnySession],
    act: Act,
    each: int,
    seed: object,
    replies: float = 0.0,
    hinted: Hinted = lambda session, rng, intended: None,
    play: Play = with_slips,
) -> Iterator[list[Sample]]:
    """Yield training samples of an editor's turns, one list for each episode.

    Before each turn of an episode, the editor is asked `each` times for its next action. `play`
    chooses what is played: by default the first answer, sometimes spoilt. All answers become
    training samples. Additional answers cost little computation: their samples share
    all tokens of the conversation so far, and the editor's turns are only a fifth of the tokens of
    an episode. All samples have the same group number, because training computes a prefix that a
    group shares, such as the instructions, only once. `Sample.advantages` contains the weights of
    the tokens in the loss `likelihood`. The weight of a turn's tokens is the number of times that
    the editor gave this answer.

    Args:
        chat: encodes conversations with the sessions' tools.
        sessions: new sessions of any domain; this function plays each of them to its end.
        act: returns the editor's next action.
        each: number of times that the editor is asked for its next action before each turn.
        seed: seed of the editor's random numbers.
        replies: each token of an environment reply has the loss weight `replies * each`; with 0,
            policies are not trained on replies. The reply to `review` repeats the resume, so
            training on this reply teaches a policy to copy text from the prompt.
        hinted: returns a hint about a session and the call that follows it, or None. A hint is
            appended to the observation only in an additional sample of one turn. The episode itself
            has no hints, so turns without hints are imitated as well.
        play: returns the text that is played in a session, given the editor's first answer.
    """
    for number, session in enumerate(sessions):
        rng = Random(f"{seed}:{number}")
        prompt = chat.prompt(session.system_prompt, session.prompt)
        observation, intended = session.prompt, ""
        before, reply = list[int](), list[int]()
        samples = []
        while not session.done:
            for _ in range(each):
                if rng.random() < HINTS and (pair := hinted(session, rng, intended)):
                    told, turn = beneath(observation, pair[0]), chat.write(pair[1])
                    first = prompt if before else chat.prompt(session.system_prompt, told)
                    context = [*before[: len(before) - len(reply)], *chat.reply(told)] * bool(
                        before
                    )
                    samples.append(one_turn(first, context, turn))
            drawn = Counter(act(session, rng) for _ in range(each))
            weights = [0.0] * (len(before) - len(reply)) + [replies * each] * len(reply)
            for text, draws in drawn.items():
                turn = chat.write(text)
                weights += [float(draws)] * len(turn)
                sampled, zeros = [one > 0 for one in weights], [0.0] * len(weights)
                samples.append(Sample(0, prompt, before + turn, sampled, zeros, weights))
                weights = [0.0] * len(before)  # train on a reply only once
            intended = next(iter(drawn))
            text = play(session, rng, intended)
            step = session.step(text)
            observation, intended = step.observation, intended if step.error != "none" else ""
            reply = list(chat.reply(observation))
            before = [*before, *chat.write(text), *reply]
        yield samples


def one_turn(prompt: list[int], before: list[int], turn: list[int], weight: float = 1.0) -> Sample:
    """Return a sample of a turn after the tokens `before`; only the turn has loss weights."""
    weights = [0.0] * len(before) + [weight] * len(turn)
    sampled = [one > 0 for one in weights]
    return Sample(0, prompt, before + turn, sampled, [0.0] * len(weights), weights)


def drills(chat: ChatTokens, pages: Iterable[str], seed: object) -> Iterator[list[Sample]]:
    """Yield a list of samples for each resume: short excerpts, each followed by its copy.

    The samples teach a model with random weights to copy text, so that it can quote the resume in
    edits. Replies to the tool `review` also repeat text, but do not teach such a model to copy,
    since hundreds of tokens lie between a line and its copy.
    """
    rng = Random(str(seed))
    for page in pages:
        ids = chat.write(page)[:-1]
        most = min(len(ids), _EXCERPT)
        samples = []
        for _ in range(_EXCERPTS):
            length = rng.randint(min(most, _EXCERPT // 4), most)
            start = rng.randrange(len(ids) - length + 1)
            part = ids[start : start + length]
            weights = [0.1] * (length + 1) + [1.0] * length
            sampled, zeros = [True] * len(weights), [0.0] * len(weights)
            copied = [*part, chat.end, *part]
            samples.append(Sample(0, [chat.end], copied, sampled, zeros, weights))
        yield samples


_QUOTE = re.compile(r'"old": "((?:[^"\\]|\\.)+)"')


def spoilt(text: str, before: list[str], rng: Random) -> str:
    """Return a faulty call: an earlier one, or `text` cut off, misquoted or with a wrong word."""
    # the commonest fault of small policies is to repeat a call
    if before and rng.random() < 0.4:
        return rng.choice(before)
    kind = rng.randrange(4)
    if kind == 0:
        return text[: rng.randrange(len(text))]
    if kind > 1 and (quote := _QUOTE.search(text)):
        # the misspelt quotations of a policy that copies badly
        at = rng.choice(
            [n for n, one in enumerate(quote[1]) if one.isalpha()] or [0]
        ) + quote.start(1)
        return (
            text[:at] + rng.choice(_words())[: rng.randint(1, 3)] + text[at + rng.randint(0, 2) :]
        )
    words = text.split(" ")
    words[rng.randrange(len(words))] = rng.choice(words)
    return " ".join(words)
