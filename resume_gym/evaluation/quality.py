"""Card of an environment's quality: difficulty, best attack, cost and known faults of the judge.

`measure` returns a card as JSON values, and `quality_page` writes it as Markdown. The ids of checks
are those of OpenEnv's RFC 008, environment auto-validation; "difficulty profile", "structural
conformance" and the list of what was skipped and why are from NeMo Gym's AutoQC.
"""

import asyncio
import json
import platform
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from importlib.resources import files
from itertools import product
from statistics import fmean
from typing import Any, NamedTuple

import resume_gym
from resume_gym.env import EditEnv
from resume_gym.episode.editing import AnySession, Rules
from resume_gym.episode.session import Session
from resume_gym.evaluation.attack import ABOUT, POLICIES, TRICKS, attack, faults
from resume_gym.evaluation.comparison import statistics_of
from resume_gym.evaluation.contest import Contest, Entry, play_entry
from resume_gym.evaluation.estimator import by_task
from resume_gym.evaluation.grading import grade
from resume_gym.evaluation.records import Episode
from resume_gym.evaluation.results import digest
from resume_gym.evaluation.summary import summarise, task_figures
from resume_gym.judges import JudgeError, as_async, make_judge
from resume_gym.judges.audit import LabelledPair, calibrate
from resume_gym.llm.loop import submit
from resume_gym.support.user_errors import number_of
from resume_gym.testing import check_env

EPISODES = 8
"""Episodes of a model on each task; scripted agents play one."""
Watch = Callable[[Entry], Callable[[], object]]
"""Callback for each agent before it plays; returns a callback for the end of each episode."""
_REPLAYED = 8  # episodes of each agent that are played again, each for one more verdict
_DIGITS = 4  # decimals of floats; more would depend on the versions of numerical libraries
_GAMING = POLICIES.keys() | TRICKS.keys()


class Played(NamedTuple):
    """The graded episodes of one agent, and the mean wall time of an episode with its verdict."""

    entry: Entry
    sessions: Sequence[AnySession]
    episodes: Sequence[Episode]
    seconds: float


def measure(
    env: EditEnv,
    contest: Contest,
    scripted: Sequence[Entry],
    models: Sequence[Entry],
    pairs: Sequence[LabelledPair],
    count: Callable[[str], int] | None,
    watch: Watch,
) -> dict[str, Any]:
    """Play agents and attacks, ask the judge about labelled pairs, and return the card.

    Equal arguments give equal cards, except for `seconds` and the answers of models. The function
    requires scipy.

    Args:
        env: the environment with all its tasks, which `check_env` checks.
        contest: the tasks to play, the judge and the seed.
        scripted: agents that play each task once.
        models: agents that play each task `EPISODES` times.
        pairs: labelled pairs for the judge.
        count: function that returns the number of tokens of a text; None to count none.
        watch: see `Watch`.

    Raises:
        ModelError, JudgeError: no episode has a reward.
    """
    skipped = {"contamination": "`resume-gym data check FILE` looks for near-duplicates"}
    played: dict[str, Played] = {}
    for entry in (*scripted, *models):
        one = _play(contest, entry, EPISODES if entry in models else 1, watch)
        if one.episodes:
            played[entry.name] = one
        if entry.failures:
            told = f"{number_of(len(entry.failures), 'episode')} of {entry.name}"
            skipped[told] = next(iter(entry.failures.values()))
    if not played:
        raise JudgeError("; ".join(list(skipped.values())[1:]))
    if not models:
        skipped["model"] = "no `--model`"
    difficulty = {name: _difficulty(one.episodes) for name, one in played.items()}
    attacks = _part("attack", contest, skipped, _attacks)
    agreement = _part("agreement", contest, skipped, partial(_agreement, pairs))
    seconds = {name: one.seconds for name, one in played.items()}
    card = {
        **{name: value for name, value in contest.settings.items() if name != "rollouts"},
        "task_count": len(env.tasks),
        "tasks_digest": digest(env.tasks),
        "tasks_by_weakness": dict(sorted(Counter(one.weakness for one in contest.tasks).items())),
        "versions": {
            **{"resume_gym": resume_gym.__version__, "python": platform.python_version()},
            **{name: version(name) for name in ("gymnasium", "numpy", "scipy")},
        },
        "checks": {
            "structural conformance": _conformance(env),
            "semantic.replayability": asyncio.run(_replay(contest, played.values())),
            **_sanity(contest, difficulty, attacks),
        },
        "difficulty": difficulty,
        "equal_groups": {
            one.name: _equal(played[one.name]) for one in models if one.name in played
        },
        "attack": attacks,
        "cost": {name: _cost(one, count) for name, one in played.items()},
        "seconds": {"episode": seconds, "verdict": agreement.pop("seconds", None)},
        "agreement": agreement,
        "holes": _holes(contest),
        "skipped": skipped,
    }
    return _rounded(card)  # type: ignore[no-any-return]


def _part(
    name: str,
    contest: Contest,
    skipped: dict[str, str],
    work: Callable[[Contest], dict[str, Any]],
) -> dict[str, Any]:
    """Return the result of `work`; if there is none, return {} and add the reason to `skipped`."""
    if not issubclass(contest.session_type, Session):
        skipped[name] = "only in environments for resumes"
        return {}
    try:
        return work(contest)
    except JudgeError as problem:
        skipped[name] = " ".join(str(problem).split())
        return {}


def _play(contest: Contest, entry: Entry, rollouts: int, watch: Watch) -> Played:
    sessions = {
        (rollout, task.task_id): contest.session_type(task, contest.rules)
        for rollout, task in product(range(rollouts), contest.tasks)
    }
    entry.left = dict(sessions)
    start = time.perf_counter()
    play_entry(contest, entry, None, None, watch(entry))
    seconds = (time.perf_counter() - start) / len(sessions)
    graded = [session for key, session in sessions.items() if key in entry.episodes]
    return Played(entry, graded, entry.played(contest), seconds)


def _difficulty(episodes: Sequence[Episode]) -> dict[str, Any]:
    summary = summarise(episodes)
    return {
        "reward": summary.reward,
        "interval": statistics_of(episodes).interval,
        "by_weakness": summary.by_weakness,
        "by_task": task_figures(episodes)["reward"],
    }


def _equal(played: Played) -> float | None:
    """Return the share of tasks on which all episodes have the same reward; None if unknown."""
    rewards = by_task((one.task_id, {"reward": one.reward}) for one in played.episodes)["reward"]
    groups = [own for own in rewards.values() if len(own) > 1]
    return fmean(len(set(own)) == 1 for own in groups) if groups else None


def _attacks(contest: Contest) -> dict[str, Any]:
    """Play the policies of `judge attack`; `best` is the one with the highest `above`."""
    rows = attack(contest, contest.tasks, contest.seed)
    best = max((row for row in rows if row.policy in _GAMING), key=lambda row: row.above)
    means = {row.policy: row.mean for row in rows}
    return {
        "floor": max(means["floor"], means["noop"]),
        "best": {**asdict(best), "about": ABOUT[best.policy]},
        "faults": faults(rows),
        "above": {row.policy: row.above for row in rows if row.policy in _GAMING},
        "best_non_solving": max(means[name] for name in ("floor", *POLICIES)),
    }


def _agreement(pairs: Sequence[LabelledPair], contest: Contest) -> dict[str, Any]:
    """Compare the judge's verdicts on labelled pairs of whole resumes with the labels."""
    try:
        # made again, since the contest's judge may grade single lines
        judge = as_async(make_judge(contest.judge_spec))
    except ValueError as problem:
        raise JudgeError(str(problem)) from None
    report = submit(calibrate(judge, pairs)).result()
    names = ("pairs", "accuracy", "kappa", "recall", "false_alarms", "failures", "seconds")
    return {name: asdict(report)[name] for name in names}


def _conformance(env: EditEnv) -> dict[str, Any]:
    try:
        check_env(env)
    except AssertionError as broken:
        return {"status": "fail", "why": " ".join(str(broken).split())}
    return {"status": "pass"}


async def _replay(contest: Contest, played: Iterable[Played]) -> dict[str, Any]:
    """Take the actions of recorded episodes again, ask for new verdicts, and compare rewards."""
    apart = []
    for session in (session for one in played for session in one.sessions[:_REPLAYED]):
        record = json.loads(json.dumps(session.record()))
        again = contest.session_type(session.task, Rules(**record["rules"]))
        for action in record["actions"]:
            again.step(action)
        if not again.needs_verdict or (await grade([again], contest.judge)) == [None]:
            apart += [max(abs(again.ledger[term] - x) for term, x in record["ledger"].items())]
    told = {"episodes": len(apart), "largest_difference": max(apart, default=None)}
    return {"status": _status(told["largest_difference"] == 0), **told}


def _sanity(
    contest: Contest, difficulty: Mapping[str, Any], attacks: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return the RFC 008 checks that compare the oracle, attacks and noop (the RFC's floor)."""
    if not {"noop", "oracle"} <= difficulty.keys():
        return {}
    best, floor = (difficulty[name] for name in ("oracle", "noop"))
    most = fmean(contest.session_type(one, contest.rules).bounds[1] for one in contest.tasks)
    least = floor["by_task"]
    gaps = [value - least[task] for task, value in best["by_task"].items() if task in least]
    # no tolerance for the oracle is declared, so this check neither passes nor fails
    reached = {"status": "measured", "oracle": best["reward"], "max": most}
    gap = {"status": _status(min(gaps) > 0), "mean_gap": fmean(gaps)}
    checks = {"semantic.oracle_max": reached, "semantic.floor_gap": gap}
    if attacks:
        told = {"floor": floor["reward"], "best_non_solving": attacks["best_non_solving"]}
        status = _status(told["best_non_solving"] <= told["floor"])
        checks["statistical.adversarial_floor"] = {"status": status, **told}
    return checks


def _status(holds: bool) -> str:
    return "pass" if holds else "fail"


def _cost(played: Played, count: Callable[[str], int] | None) -> dict[str, Any]:
    """Return the mean cost of an episode, without tool schemas and marks of chat templates."""
    texts: dict[str, list[str]] = {"read": [], "written": []}
    for session in played.sessions:
        replies = [step.observation for _, step in session.state.transcript[:-1]]
        texts["read"].append("\n".join([one["content"] for one in session.messages] + replies))
        texts["written"].append("\n".join(text for text, _ in session.state.transcript))
    usage = played.entry.judge_usage
    return {
        "turns": fmean(one.turns for one in played.episodes),
        "characters": {name: fmean(map(len, own)) for name, own in texts.items()},
        "tokens": {name: fmean(map(count, own)) for name, own in texts.items()} if count else None,
        "verdicts": fmean(one.judged for one in played.episodes),
        "judge_requests": usage.answers / len(played.episodes) if usage else None,
    }


def _holes(contest: Contest) -> list[dict[str, str]]:
    """Return the known faults of the rubric judge in this environment; [] for other judges."""
    if contest.judge.name != "rubric" or not issubclass(contest.session_type, Session):
        return []
    text = (files("resume_gym.judges") / "holes.toml").read_text(encoding="utf-8")
    kind = contest.session_type.verdict_type.__name__
    return [hole for hole in tomllib.loads(text)["holes"] if hole.pop("verdict", kind) == kind]


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return round(value, _DIGITS) + 0.0 if isinstance(value, float) else value
