"""Estimates of the memory and time of a run.

A plan follows from the configuration alone, so this package does not import `learners.run` or
`learners.launch`.
"""
