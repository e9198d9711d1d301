"""Resume Gym as an OpenEnv environment: the client, and what it sends and gets."""

from .client import ResumeGymAction, ResumeGymEnv, ResumeGymObservation, ResumeGymState

__all__ = ["ResumeGymAction", "ResumeGymEnv", "ResumeGymObservation", "ResumeGymState"]
