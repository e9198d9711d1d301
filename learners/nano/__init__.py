"""The trained nano policy, and `model.py`, which creates an untrained one for `imitation.py`."""
