"""Classes of the environment `resume-edit`, in the module in which verifiers looks for them."""

from resume_gym.integrations.verifiers import ChatHarness, GymEnv, GymTaskset

__all__ = ["ChatHarness", "GymEnv", "GymTaskset"]
