"""Play one task in a GEM vector of two environments: one agent edits, the other only submits.

    pip install gem-llm==0.1.0 && pip install -e .   # Python 3.11 to 3.12.0
    python examples/gem_episode.py

The example needs no model and no network, and prints

    AsyncVectorEnv with 2 environments.
    environment 0: reward +1.00 | turns left: 5/6 | edits: 0
    environment 1: reward +0.75 | turns left: 5/6 | edits: 0
    environment 1: episode 0.75
    environment 0: reward +0.25 | turns left: 4/6 | edits: 1
    environment 0: reward +0.25 | turns left: 3/6 | edits: 2
    environment 0: reward +4.50 | turns left: 2/6 | edits: 2
    environment 0: episode 6.00
"""

import gem

import resume_gym.integrations.gem  # noqa: F401 (registers the environments)
from resume_gym import tool_call
from resume_gym.support.command_line import parse_nothing

REVIEW, SUBMIT = tool_call("review"), tool_call("submit")
EDITS = (
    tool_call("str_replace", old="Performed audits of", new="Audited"),
    tool_call("str_replace", old="Evaluating capital", new="Evaluated capital"),
)


def main() -> None:
    name = "resume_gym:ResumeEditMini-v0"
    envs = gem.make_vec([name] * 2, task_id="mini-train-0-000005", async_mode=True)
    envs.reset()
    # `step` advances only the environments in `actions`; environment 1 stops after its episode
    for actions in ({0: REVIEW, 1: SUBMIT}, {0: EDITS[0]}, {0: EDITS[1]}, {0: SUBMIT}):
        observations, rewards, ends, _, infos = envs.step(actions)
        turns = zip(actions, observations, rewards, ends, infos, strict=True)
        for env, observation, reward, end, info in turns:
            if end:  # the next episode has begun; `info` holds the last observation
                observation, info = info["final_obs"], info["final_info"]
            print(f"environment {env}: reward {reward:+.2f} | {observation.splitlines()[-1]}")
            if end:
                print(f"environment {env}: episode {info['episode_reward']:.2f}")


if __name__ == "__main__":
    parse_nothing(__doc__)
    main()
