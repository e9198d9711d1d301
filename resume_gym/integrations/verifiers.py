r"""Adapter for verifiers 0.4 (v1) and prime-rl: a taskset, an env and a harness.

    pip install -e . -e examples/packages/verifiers  # package `resume-edit` exports these classes
    vf-eval resume-edit --env.taskset.gym-kwargs '{"split": "eval"}' --no-push --no-rich \
        --client.base-url http://localhost:8000/v1 -m MODEL -n 20 -r 4

All episodes of a group play the same task. The trace of an episode stores the reward terms as
rewards, and the numbers in the session's info as metrics. The `info` of the trace has the turn
rewards and the session's record. `ChatHarness` runs in this process, without a sandbox or `uv`. It
passes the tool schemas to the model; the harnesses of the verifiers package do not.

An episode that lacks a verdict, or that a limit or a server failure cuts off, counts as an error:
its trace has `ok` false and a reward of 0, which is a placeholder. The train client of verifiers
drops malformed calls, so a turn with a malformed call counts as a turn without a call, which has
the same penalty. Tested with verifiers 0.4.0.
"""

import ssl
from typing import Any

import gymnasium as gym
import verifiers.v1 as vf
from openai import AsyncOpenAI, DefaultAsyncHttpxClient
from verifiers.v1.dialects.chat import message_to_wire

from resume_gym.episode.tools import with_calls

_TLS = ssl.create_default_context()  # creating a context takes 25 ms, too long for every turn


class TaskRow(vf.TaskData):  # type: ignore[misc]
    """Data of a task: its ID and tool schemas; inherited fields hold its prompts."""

    task_id: str
    tools: list[dict[str, Any]]


class GymTasksetConfig(vf.TasksetConfig):  # type: ignore[misc]
    """Configuration of the taskset; `gym_id` and `gym_kwargs` are arguments of `gym.make`."""

    gym_id: str = "ResumeEdit-v0"
    gym_kwargs: dict[str, Any] = {}  # noqa: RUF012


class GymTaskset(vf.Taskset[vf.Task[TaskRow], GymTasksetConfig]):  # type: ignore[misc]
    """The tasks of an environment."""

    def __init__(self, config: GymTasksetConfig) -> None:
        super().__init__(config)
        self.gym: Any = gym.make(config.gym_id, **config.gym_kwargs).unwrapped

    def load(self) -> list[Any]:
        """Return all tasks of the environment, in order."""
        return [self._task(self.gym.new_session(task.task_id)) for task in self.gym.tasks]

    def _task(self, session: Any) -> Any:
        texts = {"prompt": session.prompt, "system_prompt": session.system_prompt}
        tools = [dict(tool) for tool in session.tools]
        task_id = session.task.task_id
        return vf.Task[TaskRow](TaskRow(name=task_id, task_id=task_id, tools=tools, **texts))


class ChatHarness(vf.Harness[vf.HarnessConfig]):  # type: ignore[misc]
    """A harness that requests one completion per turn."""

    APPENDS_SYSTEM_PROMPT = SUPPORTS_RESUME = True
    EXECUTES_CODE = NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: Any,
        trace: object,
        runtime: object,
        endpoint: str,
        secret: str,
        urls: object,
        data: Any,
    ) -> Any:
        """Request a completion from the proxy `endpoint`, which records it in the trace."""
        system, prompt = self.resolve_prompt(data)
        turns = [vf.UserMessage(content=prompt)] if isinstance(prompt, str) else prompt
        turns = [vf.SystemMessage(content=system), *turns]
        messages = [message_to_wire(turn) for turn in turns]
        async with DefaultAsyncHttpxClient(verify=_TLS, timeout=None) as http:
            client = AsyncOpenAI(base_url=endpoint, api_key=secret, http_client=http)
            ask: Any = client.chat.completions.create
            await ask(model=ctx.model, messages=messages, tools=data.tools)
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


class GymEnvConfig(vf.SingleAgentEnvConfig):  # type: ignore[misc]
    """Configuration of a single agent without a sandbox."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())


class GymEnv(vf.Env[GymEnvConfig]):  # type: ignore[misc]
    """An environment in which the agent and a session take turns."""

    async def run(self, task: Any, agents: Any) -> None:
        """Play an episode, ask the judge and record the rewards."""
        gym_env = self.taskset.gym
        session, rewards = gym_env.new_session(task.data.task_id), []
        async with agents.agent.interaction(task) as chat:
            segment, trace = await chat.turn(), chat.trace
            while not session.done:
                if segment.terminated and trace.errors:
                    return  # the trace already holds the error that ended the episode
                if segment.terminated:
                    raise RuntimeError(f"the episode was cut off: {trace.stop_condition}")
                reply = [message for message in segment.messages if message.role == "assistant"][-1]
                step = session.step(text(reply))
                rewards.append(step.reward)
                if not step.done:
                    segment = await chat.turn(replies(reply, step.observation))
            try:
                rewards[-1] += sum((await gym_env.agrade(session)).values())
            finally:  # if the judge failed, the record can be graded later
                trace.info |= {"rewards": rewards, "session": session.record()}
            for name, value in session.ledger.items():
                trace.record_reward(name, value)
            trace.record_metrics(figures(session))


def text(message: Any) -> str:
    """Convert an assistant message to an action, with its tool calls put back into the text."""
    calls = [(call.name, call.arguments or "{}") for call in message.tool_calls or ()]
    return with_calls(message.content or "", calls)


def replies(message: Any, observation: str) -> list[dict[str, str]]:
    """Return the observation as a tool message per call or, without calls, as a user message."""
    calls = message.tool_calls or ()
    messages = [{"role": "tool", "tool_call_id": call.id, "content": observation} for call in calls]
    return messages or [{"role": "user", "content": observation}]


def figures(session: Any) -> dict[str, float]:
    """Return the numbers in the session's info, without reward terms."""
    info = {k: v for k, v in session.info().items() if not k.startswith("reward_")}
    return {name: float(value) for name, value in info.items() if isinstance(value, int | float)}
