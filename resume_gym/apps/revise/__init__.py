"""Revision of a user's own resume for a job by an agent.

`files.py` reads the inputs and writes the outputs, `revision.py` plays and grades the episode,
`edits.py` analyses each edit, and `report.py` and `console.py` present the result.
"""
