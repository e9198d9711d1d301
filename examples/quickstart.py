"""Play one episode by hand: review the resume, make two honest edits, and submit."""

import gymnasium as gym

import resume_gym

env = gym.make("ResumeEditMini-v0")
observation, info = env.reset(options={"task_id": "mini-train-0-000005"})
for action in (
    resume_gym.tool_call("review"),
    resume_gym.tool_call("str_replace", old="Performed audits of", new="Audited"),
    resume_gym.tool_call("str_replace", old="Evaluating capital", new="Evaluated capital"),
    resume_gym.tool_call("submit"),
):
    observation, reward, terminated, truncated, info = env.step(action)
    print(f"reward {reward:+.2f} | {observation.splitlines()[-1]}")
print(f"episode {info['episode_reward']:.2f}, score {info['score']:.0f} of 100")
