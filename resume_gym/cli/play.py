"""`resume-gym play`: play an episode at a prompt in the terminal."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from io import TextIOWrapper
from typing import Any

import gymnasium as gym

from resume_gym.agents import AGENTS
from resume_gym.cli.arguments import Commands, add_options
from resume_gym.env import EditEnv, make_edit_env
from resume_gym.episode import render
from resume_gym.episode.document import page
from resume_gym.episode.editing import AnySession
from resume_gym.episode.session import Session
from resume_gym.episode.tools import with_calls
from resume_gym.judges import JudgeError
from resume_gym.support.printing import say
from resume_gym.support.user_errors import TaskError

_HELP = """\
The start of a command is enough, and <tool_call>...</tool_call> makes any call. A line that ends
in \\ continues on the next line. An empty first answer cancels the command. Ctrl-D quits."""


def add_command(commands: Commands) -> None:
    """Add the parser of the command `play`."""
    command = commands.add_parser(
        "play",
        help="play an episode yourself, in the terminal",
        description="Play an episode yourself: read the page, and call a tool at each prompt. The "
        "judge grades the episode at the end. The commands can also come from a pipe.",
        examples=["play --env ResumeEditMini-v0 --seed 1"],
    )
    add = command.add_argument
    add_options(add, "--env", "--tasks", "--judge")
    add_options(add, "--split", help="split of the tasks (default: both)")
    add("--task-id", metavar="ID", help="task to play (default: a random one)")
    add_options(add, "--seed", default=None, help="seed of the random task (default: none)")
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    env = make_edit_env(options.env, tasks=options.tasks, split=options.split, judge=options.judge)
    try:
        env.reset(seed=options.seed, options={"task_id": options.task_id})
    except (ValueError, gym.error.Error) as problem:
        raise TaskError(f"{options.env}: {problem}") from None
    if not isinstance(sys.stdin, TextIOWrapper):
        raise TaskError("play reads commands from stdin, which is closed")
    sys.stdin.reconfigure(errors="replace")  # a pipe may hold bytes that are no text
    with suppress(ImportError):
        import readline  # noqa: F401  # lets `input` edit a line and recall earlier ones
    session: Any = env.session
    commands = {tool["function"]["name"]: tool["function"] for tool in session.tools}
    if len(session.editors) == 1:
        commands.setdefault("edit", commands[min(session.editors)])
    say(session.brief.removesuffix(session.original.rstrip()))
    render.human(session)
    _show_help(commands)
    try:
        with suppress(EOFError):  # Ctrl-D, or the end of a pipe
            while not session.done:
                _turn(session, commands)
            _grade(env)
    finally:
        say("\n" + "\n".join(_results(session)))
    if session.verdict and isinstance(session, Session):
        floor = _floor(env, session.task.task_id)
        say(f"{floor:+6.2f}  floor: the reward of an agent whose edits improve nothing")


def _show_help(commands: Mapping[str, Any]) -> None:
    width = max(map(len, commands))
    for name, tool in commands.items():
        told = tool["description"] if name == tool["name"] else f"the same as {tool['name']}"
        say(f"{name:<{width}}  {told}")
    say(_HELP)


def _turn(session: AnySession, commands: Mapping[str, Any]) -> None:
    """Ask until a command is an action; then take the turn, and show the page and the reply."""
    while not (action := _action(commands)):
        _show_help(commands)
    step, rules = session.step(action), session.rules
    render.human(session)
    # `human` prints no text that a tool has shown: print it here, unless it is the document
    text = "\n".join(step.observation.split("\n")[:-2])
    known = "", page(session.state.document, rules.page_lines, rules.page_width)
    if step.error == "none" and "edit" not in step.ledger and text not in known:
        say(text)
    say(", ".join(f"{name} {value:+.2f}" for name, value in step.ledger.items() if value))


def _action(commands: Mapping[str, Any]) -> str:
    """Ask for a command and its required arguments; return the action, or "" if there is none."""
    line = input("> ").strip()
    if "<tool_call>" in line:
        while "</tool_call>" not in line:
            line += "\n" + input("... ")
        return line
    found = [line] if line in commands else [name for name in commands if name.startswith(line)]
    if not line or len(found) != 1:
        return ""
    tool = commands[found[0]]
    arguments: dict[str, object] = {}
    for name in tool["parameters"]["required"]:
        text = input(f"{name}: ")
        while text.endswith("\\"):
            text = text[:-1] + "\n" + input("... ")
        if not (text or arguments):
            return ""
        is_count = tool["parameters"]["properties"][name]["type"] == "integer" and text.isdecimal()
        arguments[name] = int(text) if is_count else text
    return with_calls("", [(tool["name"], json.dumps(arguments, ensure_ascii=False))])


def _grade(env: EditEnv) -> None:
    try:
        env.grade()
    except JudgeError as problem:
        say(f"the judge gave no verdict: {problem}", error=True)
        input("Enter asks the judge again; Ctrl-D quits: ")
        _grade(env)


def _results(session: Any) -> Iterator[str]:
    """Yield the terms of the reward with the judge's reasons, and the reward."""
    unjudged = dict.fromkeys(session.weights, "not judged, since nothing was changed")
    reasons = getattr(session.verdict, "reasons", {}) if session.verdict else unjudged
    for name, value in session.ledger.items():
        # show the grade 0, too, since the judge gives a reason for it
        if value or (session.verdict and name in session.weights):
            yield f"{value:+6.2f}  {name}" + (f": {reasons[name]}" if name in reasons else "")
    graded = "not graded" if session.needs_verdict else f"score {session.score:.0f} of 100"
    yield f"{session.reward:+6.2f}  reward, {graded if session.done else 'not submitted'}"


def _floor(env: EditEnv, task_id: str) -> float:
    """Return the reward of the agent `floor` on a task."""
    env.reset(options={"task_id": task_id})
    session: Any = env.session
    agent = AGENTS["floor"](0)
    while not session.done:
        env.step(agent(session))
    return float(session.reward)
