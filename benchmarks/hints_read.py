"""Measure whether a policy reads hints, before targeted feedback is trained on it.

    python benchmarks/hints_read.py --model runs/imitation/model
    python benchmarks/hints_read.py --model nano --quick

The policy plays held-out tasks, and rules mark its bad turns and write their hints, as in training
with `--feedback-weight`. In each bad turn, it samples new calls in three contexts: with the hint,
without one, and with the hint for a bad turn of another page. Columns: the share of calls that are
valid, the mean change of the document's worth by the valid edits, and the change of the mean
log-probability of the bad turn's tokens by the hint. A kind of hint that does not lower this
log-probability teaches nothing.
"""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch
from record import Figure, finish, parser

from learners.build import make_backend, make_orchestrator, make_workloads
from learners.config import Config
from learners.engines import Sampling
from learners.engines.transformers import TransformersEngine
from learners.rollouts.drafts import Drafts, changes
from learners.rollouts.feedback import Mark, marks, with_hint
from learners.rollouts.journal import Faults
from learners.rollouts.rollout import Rollout
from learners.rollouts.workload import Workload
from learners.training.cpu import prepare_cpu
from learners.training.policy import Policy
from learners.training.rows import pack
from resume_gym import tool_call
from resume_gym.evaluation import grade

CONTEXTS = ("hint", "none", "other")
TIMEOUT_S = 60.0


class Case(NamedTuple):
    """A bad turn with its mark, and the hint for a bad turn of another page."""

    rollout: Rollout
    mark: Mark
    other: str


class Call(NamedTuple):
    """A call: whether it was valid, and the change of the document's worth by a valid edit."""

    valid: bool
    change: float | None


def cases_of(rollouts: Sequence[Rollout], most: int) -> list[Case]:
    """Return the bad turns; the other hint is of the same kind, if another page has one."""
    found = [
        (rollout, mark)
        for rollout in rollouts
        for mark in marks(rollout.session, rollout.earned or (), most)  # type: ignore[arg-type]
    ]
    cases = []
    for place, (rollout, mark) in enumerate(found):
        page = rollout.session.task.task_id
        later = [*found[place + 1 :], *found[:place]]
        others = [one for owner, one in later if owner.session.task.task_id != page]
        if others:
            alike = [one for one in others if one.kind == mark.kind]
            cases.append(Case(rollout, mark, (alike or others)[0].hint))
    return cases


def contexts_of(case: Case, work: Workload) -> Mapping[str, list[int]]:
    """Return the token ids before the turn in each of the `CONTEXTS`."""
    rollout, mark = case.rollout, case.mark
    start, context = with_hint(rollout, work.chat, mark.turn, mark.hint)
    plain = rollout.prompt + rollout.response[:start]
    other = with_hint(rollout, work.chat, mark.turn, case.other).context
    return dict(zip(CONTEXTS, (context, plain, other), strict=True))


async def calls_of(
    cases: Sequence[Case], work: Workload, engine: TransformersEngine, config: Config, draws: int
) -> list[Mapping[str, list[Call]]]:
    """Sample `draws` calls in each context of each case, and grade them."""
    assert work.judge
    threads = ThreadPoolExecutor(1)
    grader = Drafts(work.judge, TIMEOUT_S, threads, Faults(print))
    keys = count()

    async def call(case: Case, ids: Sequence[int], draw: int) -> Call:
        key, turn = next(keys), case.mark.turn
        seed = (case.rollout.group, case.rollout.member, turn, draw)  # the same in all contexts
        sampling = Sampling(config.temperature, config.max_tokens, work.chat.ends, seed)
        completion = await engine.generate(key, ids, sampling)
        engine.release(key)
        session: Any = work.session(case.rollout.session.task)
        for text, _ in case.rollout.session.state.transcript[:turn]:  # type: ignore[attr-defined]
            session.step(text)
        valid = session.step(work.chat.read(completion.ids)).error == "none"
        if not session.done:
            session.step(tool_call("submit"))
        if session.needs_verdict:
            (error,) = await grade([session], work.judge, TIMEOUT_S, threads)
            if error is not None:
                return Call(valid, None)
        found = changes([(await grader.earned(session))[turn]])
        return Call(valid, found[0] if found else None)

    async def both(case: Case) -> Mapping[str, list[Call]]:
        return {
            name: list(await asyncio.gather(*(call(case, ids, n) for n in range(draws))))
            for name, ids in contexts_of(case, work).items()
        }

    return await asyncio.gather(*map(both, cases))


@torch.no_grad()
def shift(case: Case, hint: str, work: Workload, policy: Policy) -> float:
    """Return the change of the mean log-probability of the bad turn's tokens by a hint."""
    hinted = with_hint(case.rollout, work.chat, case.mark.turn, hint)
    (row,) = pack([replace(case.rollout.sample(), hinted=(hinted,))], sys.maxsize)
    scores, _, after = policy(row)
    return float((after - scores[row.marked]).mean())


def figures_of(
    kind: str, calls: Sequence[Mapping[str, list[Call]]], shifts: Sequence[tuple[float, float]]
) -> list[Figure]:
    """Return the figures of the cases of a kind."""
    found = [Figure(f"{kind}: bad turns", len(calls))]
    for name in CONTEXTS:
        all_calls = [call for one in calls for call in one[name]]
        edits = [call.change for call in all_calls if call.change is not None]
        valid = 100 * fmean(call.valid for call in all_calls)
        found.append(Figure(f"{kind}, {name}: valid calls, %", valid))
        if edits:
            found.append(Figure(f"{kind}, {name}: mean worth of an edit", fmean(edits)))
    for name, values in zip(("hint", "other"), zip(*shifts, strict=True), strict=True):
        found.append(Figure(f"{kind}, {name}: change of log-probability", fmean(values)))
    return found


def main() -> int:
    """Play, mark the bad turns, sample again with hints, and record the figures."""
    options = parser(__doc__ or "")
    options.add_argument("--model", default="nano", help="a model, or the folder of one")
    options.add_argument("--env", default="ResumeEditNetMini-v0")
    options.add_argument("--tasks", type=int, default=40)
    options.add_argument("--rollouts", type=int, default=4)
    options.add_argument("--draws", type=int, default=4, help="calls sampled in each context")
    options.add_argument("--turns", type=int, default=2, help="most bad turns of a rollout")
    options.add_argument("--threads", type=int, default=0, help="number of CPU threads; 0 for all")
    args = options.parse_args()
    if args.quick:
        args.tasks, args.rollouts, args.draws, args.turns = 2, 2, 1, 1
    prepare_cpu(args.threads)
    config = Config(
        model=args.model,
        env=args.env,
        credit="edit",
        groups=args.tasks,
        group_size=args.rollouts,
        eval_tasks=args.tasks,
    )
    (work,) = make_workloads(config)
    work = replace(work, tasks=work.held_out)
    policy = make_backend(config).prepare().eval()
    engine = TransformersEngine(policy)
    orchestrator = make_orchestrator(config, [work], engine, None, print)
    rollouts = asyncio.run(orchestrator.batch(1)).rollouts
    orchestrator.close()
    cases = cases_of(rollouts, args.turns)
    print(f"{len(rollouts)} episodes, {len(cases)} bad turns", flush=True)
    calls = asyncio.run(calls_of(cases, work, engine, config, args.draws))
    shifts = [
        (shift(one, one.mark.hint, work, policy), shift(one, one.other, work, policy))
        for one in cases
    ]
    figures = []
    for kind in ("all", *sorted({case.mark.kind for case in cases})):
        own = [n for n, case in enumerate(cases) if kind in ("all", case.mark.kind)]
        if own:
            figures += figures_of(kind, [calls[n] for n in own], [shifts[n] for n in own])
    told = [{"kind": case.mark.kind, "hint": case.mark.hint} for case in cases]
    path = Path(args.model)
    model = (path.parent.name if path.name == "model" else path.name).lower()
    return finish(f"hints_read-{model}", args, figures, {"cases": told}, ("torch", "transformers"))


if __name__ == "__main__":
    sys.exit(main())
