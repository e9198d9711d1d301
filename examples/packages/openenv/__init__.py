"""Resume Gym as an OpenEnv environment: the client, its actions and observations."""

from .client import ResumeGymAction, ResumeGymEnv, ResumeGymObservation, ResumeGymState

__all__ = ["ResumeGymAction", "ResumeGymEnv", "ResumeGymObservation", "ResumeGymState"]
