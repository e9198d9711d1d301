"""A run's folder, alarms, progress, loggers and model card.

A run's files are independent of what the run computes, so this package does not import
`learners.engines`, `learners.losses` or `learners.launch`.
"""
