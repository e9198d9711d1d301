"""The bundled nano policy, and the random model from which `imitation.py` starts a new policy."""
