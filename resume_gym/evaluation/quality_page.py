"""Markdown page of the card that `quality.measure` returns."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from resume_gym.evaluation.quality import EPISODES

_ABOUT = """\
How hard the environment is, what games its reward, what an episode costs, and where its judge
fails. The ids of checks are those of OpenEnv's RFC 008 (environment auto-validation); here scripted
agents take the place of its models. "Difficulty profile" and "structural conformance" are
terms of NeMo Gym's AutoQC. Each task counts once in a mean; intervals of means are 95 % bootstrap
intervals over tasks."""
_CHECKS = {
    "structural conformance": "the contracts of `resume_gym.testing.check_env`",
    "semantic.replayability": "recorded episodes, played and judged again, have the same rewards",
    "semantic.oracle_max": "the oracle, which knows the planted faults, and the greatest reward",
    "semantic.floor_gap": "the oracle earns more than noop, the floor of RFC 008, on every task",
    "statistical.adversarial_floor": "no policy that solves nothing earns more than noop; harmless "
    "edits are such a policy, too",
}
_COST = """\
Read: system prompt, prompt and replies, each once (a server that keeps no prefixes reads them again
each turn); written: actions. Tool schemas and marks of chat templates do not count. Seconds were
measured on one machine, verdicts included, and differ from run to run."""


def page(card: Mapping[str, Any]) -> str:
    """Return the page of a card."""
    sections = {
        "Checks": _checks(card["checks"]),
        "Difficulty profile": _difficulty(card),
        "Best attack": _attack(card["attack"]),
        "Cost of an episode": _cost(card),
        "Agreement of the judge": _agreement(card["agreement"]),
        "Known holes of the judge": _holes(card["holes"]),
        "Skipped": [f"- {name}: {why}" for name, why in card["skipped"].items()],
    }
    blocks = [f"# {card['env']}", _ABOUT, "\n".join(_settings(card))]
    for heading, rows in sections.items():
        if text := "\n".join(rows):
            blocks += [f"## {heading}", text]
    return "\n\n".join(blocks) + "\n"


def _settings(card: Mapping[str, Any]) -> Iterator[str]:
    rules, limit, total = card["rules"], card["limit"], card["task_count"]
    played = f"{limit} of {total}" if limit else str(total)
    tasks = f"{card['tasks']}, split {card['split']}, edition {card['edition']}: {played}"
    rows = {
        "tasks": f"{tasks} (digest of all: `{card['tasks_digest']}`)",
        "judge": card["judge"],
        "rules": f"{rules['max_turns']} turns, page of {rules['page_lines']} lines, layout reward "
        f"{rules['layout_reward']}",
        "seed": str(card["seed"]),
        "versions": ", ".join(f"{name} {one}" for name, one in card["versions"].items()),
    }
    return _table(["", ""], rows.items())


def _checks(checks: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    rows = []
    for name, check in checks.items():
        told = [f"{key} {_number(value)}" for key, value in check.items() if key != "status"]
        measured = "; ".join(told)
        rows.append([f"`{name}`", check["status"], measured, _CHECKS[name]])
    return _table(["check", "status", "measured", "what it asks"], rows)


def _difficulty(card: Mapping[str, Any]) -> Iterator[str]:
    agents = card["difficulty"]
    rows = [
        [f"{name} ({tasks})", *(_number(one["by_weakness"].get(name)) for one in agents.values())]
        for name, tasks in card["tasks_by_weakness"].items()
    ]
    rows.append(["**all**", *(f"**{_number(one['reward'])}**" for one in agents.values())])
    bounds = [one["interval"] for one in agents.values()]
    rows.append(["interval", *(f"{x[0]:z.2f} to {x[1]:z.2f}" if x else "-" for x in bounds)])
    yield "Mean reward by weakness, with the number of tasks.\n"
    yield from _table(["", *agents], rows, "---:")
    for name, share in card["equal_groups"].items():
        equal = "-" if share is None else f"{share:.1%}"
        yield (
            f"\n`{name}` plays each task {EPISODES} times. On {equal} of the tasks, all rewards"
            " are equal, so that the group teaches nothing (`statistical.variance_bound`)."
        )


def _attack(attack: Mapping[str, Any]) -> Iterator[str]:
    if not attack:
        return
    best = attack["best"]
    yield (
        f"Of {len(attack['above'])} policies and tricks that improve nothing, `{best['policy']}` "
        f"({best['about']}) does best: mean reward {best['mean']:z.2f}, {best['above']:+z.2f} from "
        f"the floor of {attack['floor']:z.2f}, at most {best['most']:+z.2f} on one task "
        f"(`{best['worst']}`). The floor is the reward of harmless edits, or of no edit if that is "
        "higher; a trick is compared with the same agent without it.\n"
    )
    yield f"**Not sound:** {'; '.join(attack['faults'])}." if attack["faults"] else "Sound."


def _cost(card: Mapping[str, Any]) -> Iterator[str]:
    costs, seconds = card["cost"], card["seconds"]["episode"]
    unit = "tokens" if all(one["tokens"] for one in costs.values()) else "characters"
    rows = [
        ["turns", *(f"{one['turns']:.1f}" for one in costs.values())],
        [f"{unit} read", *(f"{one[unit]['read']:,.0f}" for one in costs.values())],
        [f"{unit} written", *(f"{one[unit]['written']:,.0f}" for one in costs.values())],
        ["verdicts", *(f"{one['verdicts']:.2f}" for one in costs.values())],
        ["seconds", *(f"{seconds[name]:.2f}" for name in costs)],
    ]
    if any(one["judge_requests"] is not None for one in costs.values()):
        asked = (_number(one["judge_requests"]) for one in costs.values())
        rows.append(["requests of the judge", *asked])
    yield from _table(["", *costs], rows, "---:")
    yield f"\n{_COST}"
    if unit == "tokens":
        yield "Tokens are those of the bundled nano tokenizer; other models count differently."


def _agreement(agreement: Mapping[str, Any]) -> Iterator[str]:
    if not agreement:
        return
    kappa, failed = agreement["kappa"], sum(agreement["failures"].values())
    rows = [
        [label.format(name), *_share(one), _number(kappa.get(name) if "right" in label else None)]
        for part, label in _PARTS.items()
        for name, one in agreement[part].items()
    ]
    pairs = agreement["pairs"]
    yield f"Verdicts on the whole resumes of {pairs} labelled pairs; {failed} have no verdict."
    yield "The kappa of preference is the correlation of `statistical.gameability_gap`.\n"
    yield from _table(["", "share", "95 % interval", "of", "kappa"], rows, "---:")


_PARTS = {
    "accuracy": "{}: right",
    "recall": "fabrication of kind {}: found",
    "false_alarms": "false alarms, {}",
}


def _share(one: Mapping[str, Any]) -> list[str]:
    value = "-" if one["value"] is None else f"{one['value']:.1%}"
    return [value, f"{one['low']:.1%} to {one['high']:.1%}", str(one["total"])]


def _holes(holes: Sequence[Mapping[str, str]]) -> Iterator[str]:
    if holes:
        rows = ([one["hole"], one["costs"], f"`{one['see']}`"] for one in holes)
        yield from _table(["hole", "what it costs", "more in"], rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], rule: str = "---") -> Iterator[str]:
    yield _row(head)
    yield f"|---|{f'{rule}|' * (len(head) - 1)}"
    yield from map(_row, rows)


def _row(cells: Sequence[str]) -> str:
    # the names of agents and judges may have line feeds and bars, which would end a cell
    safe = (" ".join(cell.split()).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(safe)} |"


def _number(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:z.2f}" if isinstance(value, float) else str(value)
