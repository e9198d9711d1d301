"""Where verifiers looks for `resume-edit`: classes for its v1, a function for its older kind."""

from importlib.util import find_spec

from resume_gym.integrations.verifiers import ChatHarness, GymEnv, GymTaskset

__all__ = ["ChatHarness", "GymEnv", "GymTaskset"]

if find_spec("verifiers.legacy"):  # 0.3 has both
    from resume_gym.integrations.verifiers_classic import load_environment

    __all__ += ["load_environment"]
