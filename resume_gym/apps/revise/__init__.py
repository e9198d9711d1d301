"""Revision of a user's own resume for a job by an agent.

`files.py` reads the inputs and writes the outputs, `revision.py` plays the episode and analyses
each edit, `report.py` and `console.py` present the result.
"""
