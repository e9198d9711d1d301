"""Classes in the module where verifiers looks for `resume-edit`."""

from resume_gym.integrations.verifiers import ChatHarness, GymEnv, GymTaskset

__all__ = ["ChatHarness", "GymEnv", "GymTaskset"]
