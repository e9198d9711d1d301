"""Estimates of the memory and time of a run."""
