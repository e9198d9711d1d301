"""Where OpenEnv's `AutoEnv` and `AutoAction` look for the classes."""

from resume_gym.integrations.openenv_client import (
    ResumeGymAction,
    ResumeGymEnv,
    ResumeGymObservation,
    ResumeGymState,
)

__all__ = ["ResumeGymAction", "ResumeGymEnv", "ResumeGymObservation", "ResumeGymState"]
