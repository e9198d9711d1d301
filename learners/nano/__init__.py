"""The trained nano policy, and code that creates an untrained nano model for `imitation.py`."""
