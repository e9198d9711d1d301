"""`check_env`: checks the requirements of Gymnasium and the contracts of `EditEnv`."""

import contextlib
import inspect
import io
import json
import pickle
import random
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils import env_checker

from resume_gym.env import EditEnv
from resume_gym.episode import rewards
from resume_gym.episode.editing import AnySession, meta_line
from resume_gym.testing.expectations import brief, broken, expect, no_exception
from resume_gym.testing.tool_calls import (
    NO_CALL,
    SUBMIT,
    check_tools,
    find_edit,
    malformed_calls,
    random_call,
    script,
)

_SEED = 5
_SEEDS = 16  # resets with different seeds, which must not all draw the same task
_RANDOM_EPISODES = 20
_RESERVED = {"episode", "final_obs", "final_info"}


_Turn = tuple[str, float, bool, Mapping[str, Any]]
"""The values that `step` returned, without `truncated`, which is always False."""


def check_env(
    env: type[EditEnv] | gym.Env[str, str], edit: Callable[[AnySession], str] = find_edit
) -> None:
    """Check the contracts of an editing environment.

    - Gymnasium's own checker passes without a warning.
    - `reset` starts the task that its options name, or draws a task that depends only on the seed.
    - Tools have a description, and a schema that can be written as JSON.
    - A malformed call raises no exception, edits nothing, uses up a turn and gets a penalty.
    - An episode ends with `submit` or the last turn, and is never truncated.
    - Every observation, even the last, ends with the number of turns left and the number of edits.
    - The same seed and actions give the same episode.
    - The reward terms in `info` sum to the step's reward, and the ledger to the episode's reward.
    - Forks, snapshots and pickled copies are independent; records can be replayed from JSON.

    Args:
        env: a subclass of `EditEnv`, or an environment of such a class, which may be wrapped. The
            check resets and plays the environment, and asks its judge, if any, for two verdicts.
        edit: function that takes a new session, and returns an action that edits its document.

    Raises:
        AssertionError: A contract is broken.
    """
    made = _unwrapped(env)
    _check_gymnasium(made)
    _check_reset(made)
    check_tools(made.session_type.toolbox.schemas)
    _check_malformed(made)
    _check_ends(made)
    made.reset(seed=_SEED)
    session = _session(made)
    actions = script(session, edit(session))
    _check_determinism(made, actions)
    _check_grade(made)
    _check_record(_session(made))
    _check_copies(made, actions)


def _unwrapped(env: type[EditEnv] | gym.Env[str, str]) -> EditEnv:
    if inspect.isclass(env) and issubclass(env, EditEnv):
        # Gymnasium's checker uses `env.spec` to create an environment for each render mode
        creator: Any = env
        env = gym.make(EnvSpec(f"{env.__name__}-v0", creator), disable_env_checker=True)
    made = env.unwrapped if isinstance(env, gym.Env) else env
    if not isinstance(made, EditEnv):
        raise broken("env", "a subclass of EditEnv or an environment of such a class", brief(env))
    return made


def _session(env: EditEnv) -> AnySession:
    if env.session is None:
        raise broken("reset", "an episode in `env.session`", "None")
    return env.session


def _check_gymnasium(env: EditEnv) -> None:
    contract = "gymnasium's check_env"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # the render mode "human" prints the page
        with no_exception(contract), contextlib.redirect_stdout(io.StringIO()):
            env_checker.check_env(env, skip_render_check=env.spec is None)
    told = [str(one.message) for one in caught if "WARN: " in str(one.message)]
    if told:
        raise broken(contract, "no warning", told[0])


def _check_reset(env: EditEnv) -> None:
    ids = [task.task_id for task in env.tasks]
    if len(set(ids)) < len(ids):
        twice = next(one for one in ids if ids.count(one) > 1)
        raise broken("task_id", "a unique id per task", f"{twice!r} for {ids.count(twice)} tasks")
    with no_exception("reset"):
        observation, info = env.reset(seed=_SEED)
        expect("reset: observation", _session(env).prompt, observation)
        expect("reset: info['task_id']", _session(env).task.task_id, info["task_id"])
        drawn = [_drawn(env, seed) for seed in range(_SEEDS)]
        expect("reset: tasks after the same seed", drawn[0], _drawn(env, 0))
        if len(ids) > 1 and len({first for first, *_ in drawn}) == 1:
            raise broken("reset: tasks of different seeds", "several", f"always {drawn[0][0]!r}")
        for task_id in (ids[0], ids[-1], ids[-1]):
            info = env.reset(options={"task_id": task_id})[1]
            expect("reset: task of options['task_id']", task_id, info["task_id"])
    unknown = ids[0] + "?"
    try:
        env.reset(options={"task_id": unknown})
    except ValueError:
        return
    raise broken(f"reset: options['task_id'] = {unknown!r}", "a TaskError", "an episode")


def _drawn(env: EditEnv, seed: int) -> list[str]:
    """Return the task IDs that four resets draw: one with a seed, then three without a seed."""
    infos = [env.reset(seed=seed)[1], *(env.reset()[1] for _ in range(3))]
    return [info["task_id"] for info in infos]


def _play(env: EditEnv, actions: Sequence[str], seed: int = _SEED) -> list[_Turn]:
    """Play actions in a new episode, and check the contracts that every step must fulfil."""
    _, info = env.reset(seed=seed)
    kinds = {name: type(value) for name, value in info.items()}
    if strange := set(kinds.values()) - {bool, int, float, str}:
        raise broken("info: types", "bool, int, float and str", brief(strange))
    if taken := {name for name in kinds if name.startswith("_")} | (_RESERVED & kinds.keys()):
        raise broken("info: keys", "none that Gymnasium's wrappers use", brief(taken))
    turns: list[_Turn] = []
    for action in actions:
        with no_exception(f"step({brief(action)})"):
            observation, reward, terminated, truncated, info = env.step(action)
            turns.append((observation, reward, terminated, info))
            found = [type(one) for one in (reward, terminated, truncated)]
            expect("step: types of reward, terminated, truncated", [float, bool, bool], found)
            expect("step: truncated", False, truncated)
            found_kinds = {name: type(value) for name, value in info.items()}
            expect("info: keys and types at every step", kinds, found_kinds)
            _check_turn(env, turns)
    return turns


def _check_turn(env: EditEnv, turns: Sequence[_Turn]) -> None:
    session, (observation, reward, terminated, info) = _session(env), turns[-1]
    terms = sum(value for name, value in info.items() if name.startswith("reward_"))
    expect("step: reward is the sum of info['reward_*']", terms, reward)
    total = sum(reward for _, reward, _, _ in turns)
    expect("info['episode_reward'] is the sum of the rewards", total, info["episode_reward"])
    expect("sum of the ledger is the sum of the rewards", total, sum(session.ledger.values()))
    left = env.rules.max_turns - len(turns)
    expect("info['turns_left']", left, info["turns_left"])
    if observation not in env.observation_space:
        raise broken("step: observation", "a text in observation_space", brief(observation))
    last = meta_line(left, env.rules.max_turns, info["edits"])
    expect("step: last line of the observation", last, observation.split("\n")[-1])
    expect("step: terminated", info["submitted"] or left == 0, terminated)


def _check_malformed(env: EditEnv) -> None:
    env.reset(seed=_SEED)
    for action, error in list(malformed_calls(_session(env))):
        ((observation, reward, _, info),) = _play(env, [action])
        what = f"malformed call {brief(action)}"
        expect(f"{what}: info['error']", error, info["error"])
        expect(f"{what}: reward", _session(env).tool_rewards["malformed"], reward)
        expect(f"{what}: document", _session(env).original, _session(env).text)
        if not observation.startswith(f"error ({error}): "):
            raise broken(what, f"a reply that starts with 'error ({error}): '", observation)
    rng = random.Random(_SEED)
    tools = [one for one in _session(env).tools if one["function"]["name"] != "submit"]
    for seed in range(_RANDOM_EPISODES):
        env.reset(seed=seed)
        text = _session(env).text
        turns = range(env.rules.max_turns - 1)  # a last turn could need a verdict
        _play(env, [random_call(rng, rng.choice(tools), text) for _ in turns], seed)


def _check_ends(env: EditEnv) -> None:
    for name, actions in (
        ("submit", [SUBMIT]),
        ("no_submit", [NO_CALL] * env.rules.max_turns),
    ):
        _play(env, actions)
        session = _session(env)
        how = f"unedited episode that ends by {name}"
        paid = session.tool_rewards[name]
        expect(f"{how}: ledger[{name!r}]", paid, session.ledger[name])
        content = {**dict.fromkeys(session.verdict_weights, 0.0), **session.unchanged()}
        got = {name: session.ledger[name] for name in session.verdict_weights}
        expect(f"{how}: terms of `unchanged`", content, got)
        try:
            env.step(NO_CALL)
        except gym.error.ResetNeeded:
            continue
        raise broken("step after the end", "gymnasium.error.ResetNeeded", "a turn")


def _check_determinism(env: EditEnv, actions: Sequence[str]) -> None:
    """Check that an episode depends only on the seed of `reset` and the actions."""
    traces = []
    for _ in range(2):
        _play(env, actions)
        session = _session(env)
        # the transcript has no verdicts, which may differ if the judge samples
        steps = [step for _, step in session.state.transcript]
        traces.append({"prompt": session.prompt, "steps": steps, "document": session.text})
    for name, value in traces[0].items():
        expect(f"determinism: {name} after the same seed and actions", value, traces[1][name])


def _check_grade(env: EditEnv) -> None:
    """Check the grade of the finished episode in `env`, in which the agent made one edit."""
    session = _session(env)
    info, reward = session.info(), session.reward
    expect("info['edits'] after the action of `edit`", 1, info["edits"])
    expect("info['graded'] at the end", env.judge is not None, info["graded"])
    least, greatest = rewards.reward_bounds(env.rules.max_turns, session.weights)
    if not least <= reward <= greatest:
        raise broken("reward of an episode", f"{least} to {greatest}", str(reward))
    expect("env.grade() after the verdict", {}, env.grade())
    expect("reward after a second call of grade", reward, session.reward)


def _as_json(session: AnySession) -> Any:
    with no_exception("record as JSON"):
        return json.loads(json.dumps(session.record()))


def _check_record(session: AnySession) -> None:
    record = _as_json(session)
    with no_exception("replay of a record"):
        again = type(session).replay(session.task, record)
    expect("record of a replay", record, _as_json(again))


def _check_copies(env: EditEnv, actions: Sequence[str]) -> None:
    """Check forks, snapshots and pickled copies in the middle of an episode."""
    _play(env, actions[:1])
    session = _session(env)
    snapshot, record = session.snapshot(), _as_json(session)
    fork = session.fork()
    expect("record of a fork", record, _as_json(fork))
    for action in actions[1:]:
        fork.step(action)
    expect("record of a session after steps of a fork", record, _as_json(session))
    session.restore(fork.snapshot())
    expect("record after restoring a fork's snapshot", _as_json(fork), _as_json(session))
    session.restore(snapshot)
    expect("record after restoring the session's own snapshot", record, _as_json(session))
    with no_exception("pickle of the environment"):
        twin = pickle.loads(pickle.dumps(env))
    expect("step of a pickled copy", env.step(actions[1]), twin.step(actions[1]))
    expect("next reset of a pickled copy", env.reset(), twin.reset())
