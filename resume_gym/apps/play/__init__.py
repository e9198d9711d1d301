"""Terminal game in which a person plays an episode.

`episode.py` wraps the session with undo, previews and grading; `page.py`, `form.py` and
`screens.py` hold the widgets, and `app.py` holds the Textual application with its style sheet.
"""
