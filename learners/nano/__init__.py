"""The bundled nano policy, and the plain model that `imitation.py` starts a new one from."""
