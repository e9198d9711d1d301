"""Measures of the texts that the policy writes in a step, for the alarms in `run/alarms.py`.

The measures are computed from finished episodes, without another forward pass of the model.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, Self

from learners.rollouts.rollout import Rollout
from resume_gym.episode.editing import EditSession
from resume_gym.episode.tools import Toolbox, ToolCall

_WORD = re.compile(r"[^\W\d_]+")
_PHRASE = 3  # number of words in a phrase
_SMOOTHING = 0.1  # added to the count of each word, so that no word has the probability 0
_TASKS = 4  # minimum number of tasks to compare; answers to fewer tasks are often similar
# words that praise or grade a resume, or that address a grader
_ADDRESSED = re.compile(
    r"\b(?:judges?|graders?|evaluators?"
    r"|this (?:resume|revision|edit|candidate) (?:is|deserves|should)"
    r"|(?:highest|full|top|maximum|perfect) (?:scores?|marks?|ratings?|rewards?)"
    r"|ignore (?:all |the |any )?(?:previous|above|other)"
    r"|(?:excellent|outstanding|exceptional|perfect) (?:resume|candidate|revision|choice))\b",
    re.IGNORECASE,
)


class _Edited(NamedTuple):
    """The changes that an episode made to its document.

    Attributes:
        group: number of the episode's group; all episodes of a group have the same task.
        calls: the episode's valid tool calls, except calls of `review`.
        written: lines of the final document that the original lacks.
        lost: lines of the original that the final document lacks.
        moved: whether the lines in both the original and the final document changed their order.
        session: session of the episode.
    """

    group: int
    calls: tuple[ToolCall, ...]
    written: list[str]
    lost: list[str]
    moved: bool
    session: EditSession  # type: ignore[type-arg]

    @property
    def shown(self) -> int:
        """Number of edits that can have left a trace in the final document.

        This is the number of edits, but at most the number of written lines or of lost lines,
        whichever is greater.
        """
        return min(self.session.state.edits, max(len(self.written), len(self.lost)))

    @classmethod
    def of(cls, group: int, session: EditSession) -> Self:  # type: ignore[type-arg]
        before, after = session.original.splitlines(), session.text.splitlines()
        lost, written = Counter(before) - Counter(after), Counter(after) - Counter(before)
        kept = [_without(before, lost), _without(after, written)]
        actions = (action for action, _ in session.state.transcript)
        calls = tuple(_calls(session.toolbox, actions))
        return cls(
            group, calls, [*written.elements()], [*lost.elements()], kept[0] != kept[1], session
        )


def measures(rollouts: Iterable[Rollout], reference: Mapping[str, int]) -> dict[str, float]:
    """Return measures of the texts of a step's editing episodes; empty if there are none.

    Args:
        rollouts: finished rollouts.
        reference: counts of the words that the policy wrote in the first step, see `vocabulary`;
            empty in the first step itself.

    Returns:
        Values by name. "Written" lines are only in the final document, "lost" ones in the original.

        Measures that compare tasks, and are missing if the step has fewer than four tasks:

        equal_answers: share of the episodes that made the most frequent sequence of tool calls.
        prompt_information: mutual information between the task and the words in an episode's
            calls, as a share of its maximum; see `information`.
        opener_share: share of the written lines that begin with the most frequent first word.
        phrase_share: share of the tasks for which at least one episode wrote the most frequent new
            phrase (three words in a row that the original document does not contain).

        Measures for any number of tasks; words and edits are counted over all episodes together:

        word_drift: share of the words in call arguments (see `vocabulary`) that are neither in the
            prompt of their episode nor in `reference`; missing in the first step.
        growth: number of words in the written lines, divided by the number in the lost lines.
        churn: share of the edits in excess of one edit per changed line, for example undone edits.
        addressed_share: share of episodes whose written lines address a grader or praise a resume.
        safe_harbour: share of the episodes that only deleted one line and then submitted.
        moved_share: share of the episodes that changed the order of lines.
    """
    played = [
        _Edited.of(one.group, one.session)
        for one in rollouts
        if isinstance(one.session, EditSession)
    ]
    if not played:
        return {}
    episodes, groups = len(played), [one.group for one in played]
    written = [line for one in played for line in one.written]
    lost = sum(len(words(line)) for one in played for line in one.lost)
    edits = sum(one.session.state.edits for one in played)
    counts = [_word_counts(one, reference) for one in played]
    unknown, total = map(sum, zip(*counts, strict=True))
    common = {}
    if (tasks := len({*groups})) >= _TASKS:
        same = Counter(repr(one.calls) for one in played if one.calls)
        common = {
            "equal_answers": _most(same) / episodes,
            "prompt_information": information(
                [Counter(_texts(one.calls)) for one in played], groups
            ),
            "opener_share": _most(_openers(played)) / max(1, len(written)),
            "phrase_share": _most(_phrase_counts(played)) / tasks,
        }
    return {
        **({"word_drift": unknown / max(1, total)} if reference else {}),
        **common,
        "growth": sum(len(words(line)) for line in written) / lost if lost else 1.0,
        "churn": 1 - sum(one.shown for one in played) / edits if edits else 0.0,
        "addressed_share": sum(map(_is_addressed, played)) / episodes,
        "safe_harbour": sum(map(_is_harboured, played)) / episodes,
        "moved_share": sum(one.moved for one in played) / episodes,
    }


def hacking(rollouts: Sequence[Rollout], hacks: Collection[str]) -> list[bool]:
    """Return for each rollout whether it shows any of `hacks`, which are keys of `HACKS`."""
    played = [
        _Edited.of(one.group, one.session) if isinstance(one.session, EditSession) else None
        for one in rollouts
    ]
    found = [HACKS[name]([one for one in played if one]) for name in hacks]
    return [one is not None and any(shows(one) for shows in found) for one in played]


def vocabulary(toolbox: Toolbox, actions: Iterable[str]) -> Counter[str]:
    """Count the words in arguments of valid calls; leave out `review` calls and `old` arguments."""
    return _written(_calls(toolbox, actions))


def information(answers: Sequence[Mapping[str, int]], groups: Sequence[int]) -> float:
    """Return the mutual information of answers and their tasks, scaled to [0, 1].

    The RAGEN-2 paper detects template collapse (similar answers to all tasks) by the mean over all
    answers z of log p(z|x) - log mean_j p(z|x_j), where x is the task of z, and x_j are all tasks.
    In the paper, p is the policy's probability, which needs a forward pass for each pair of z and
    x_j. Here, p(z|x_j) is the probability of the words of z under a smoothed distribution of the
    words in the answers to x_j other than z. The mean is divided by its maximum, the logarithm of
    the number of tasks. Terms below minus this maximum are raised to it, so that no single odd
    answer dominates the mean.

    Args:
        answers: word counts of each of the n answers.
        groups: task number of each answer [n].
    """
    names = sorted(set(groups))
    if len(names) < 2:
        return 1.0
    most, counts = math.log(len(names)), {name: Counter[str]() for name in names}
    for answer, group in zip(answers, groups, strict=True):
        counts[group].update(answer)
    size = _SMOOTHING * len({word for answer in answers for word in answer})
    terms = []
    for answer, group in zip(answers, groups, strict=True):
        logs = []
        for name in names:
            own = answer if name == group else {}
            total = counts[name].total() - sum(own.values()) + size
            logs.append(
                sum(
                    n * math.log((counts[name][word] - own.get(word, 0) + _SMOOTHING) / total)
                    for word, n in answer.items()
                )
                if answer
                else 0.0
            )
        top = max(logs)
        mean = top + math.log(sum(math.exp(one - top) for one in logs) / len(logs))
        terms.append(max(-most, logs[names.index(group)] - mean))
    return max(0.0, sum(terms) / len(terms) / most)


def words(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return _WORD.findall(text.lower())


def _calls(toolbox: Toolbox, actions: Iterable[str]) -> Iterable[ToolCall]:
    for call in map(toolbox.read, actions):
        if isinstance(call, ToolCall) and call.name != "review":
            yield call


def _texts(calls: Iterable[ToolCall]) -> list[str]:
    return [word for call in calls for text in call.arguments.values() for word in words(str(text))]


def _written(calls: Iterable[ToolCall]) -> Counter[str]:
    return Counter(
        word
        for call in calls
        for name, text in call.arguments.items()
        if name != "old"
        for word in words(str(text))
    )


def _word_counts(one: _Edited, reference: Mapping[str, int]) -> tuple[int, int]:
    """Return two counts: written words in neither prompt nor `reference`, and all written words."""
    written = _written(one.calls)
    known = {*reference, *words(one.session.prompt)}
    return sum(n for word, n in written.items() if word not in known), written.total()


def _without(lines: Sequence[str], removed: Counter[str]) -> list[str]:
    left, kept = removed.copy(), []
    for line in lines:
        if left[line]:
            left[line] -= 1
        else:
            kept.append(line)
    return kept


def _new_phrases(one: _Edited) -> set[tuple[str, ...]]:
    lines = [*map(words, one.written)]
    return {phrase for line in lines for phrase in _phrases(line)} - {
        *_phrases(words(one.session.original))
    }


def _phrases(tokens: Sequence[str]) -> Iterable[tuple[str, ...]]:
    return zip(*(tokens[start:] for start in range(_PHRASE)), strict=False)


def _openers(played: Iterable[_Edited]) -> Counter[str]:
    """Count the first words of all lines that the episodes wrote."""
    return Counter(word for one in played for line in one.written for word in words(line)[:1])


def _phrase_counts(played: Iterable[_Edited]) -> Counter[tuple[str, ...]]:
    """Count, for each new phrase, the tasks for which at least one episode wrote the phrase."""
    by_group: dict[int, set[tuple[str, ...]]] = {}
    for one in played:
        by_group.setdefault(one.group, set()).update(_new_phrases(one))
    return Counter(chain.from_iterable(by_group.values()))


def _has_opener(played: Sequence[_Edited]) -> Callable[[_Edited], bool]:
    common = [word for word, _ in _openers(played).most_common(1)]
    return lambda one: any(words(line)[:1] == common for line in one.written)


def _has_phrase(played: Sequence[_Edited]) -> Callable[[_Edited], bool]:
    common = {phrase for phrase, _ in _phrase_counts(played).most_common(1)}
    return lambda one: bool(common & _new_phrases(one))


def _is_addressed(one: _Edited) -> bool:
    return any(map(_ADDRESSED.search, one.written)) and not _ADDRESSED.search(one.session.original)


def _is_harboured(one: _Edited) -> bool:
    state = one.session.state
    return state.submitted and state.edits == 1 and not one.written and len(one.lost) == 1


def _most(counts: Counter[str] | Counter[tuple[str, ...]]) -> int:
    return max(counts.values(), default=0)


HACKS: Mapping[str, Callable[[Sequence[_Edited]], Callable[[_Edited], bool]]] = {
    "opener": _has_opener,
    "phrase": _has_phrase,
    "churn": lambda played: lambda one: one.shown < one.session.state.edits,
    "grader addressed": lambda played: _is_addressed,
    "safe harbour": lambda played: _is_harboured,
    "moved lines": lambda played: lambda one: one.moved,
}
"""Detectors of hacks by alarm name; some hack alarms have no detector.

A detector takes a step's episodes, and returns a function that tests one of them for the hack.
"""
