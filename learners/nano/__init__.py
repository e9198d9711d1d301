"""The trained nano policy, and code that creates an untrained nano model for `imitation.py`.

Other code handles nano like any model; this package does not import `learners.rollouts` or
`learners.engines`.
"""
