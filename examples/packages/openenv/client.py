"""Client classes, in the module in which OpenEnv's `AutoEnv` and `AutoAction` look for them."""

from resume_gym.integrations.openenv_client import (
    ResumeGymAction,
    ResumeGymEnv,
    ResumeGymObservation,
    ResumeGymState,
)

__all__ = ["ResumeGymAction", "ResumeGymEnv", "ResumeGymObservation", "ResumeGymState"]
