"""Training of a policy: batches, attention, backends and checkpoints.

The trainer sees only token ids, weights and log-probabilities, so this package does not import
`learners.rollouts`, `learners.engines`, `resume_gym.episode` or `resume_gym.judges`.
"""
