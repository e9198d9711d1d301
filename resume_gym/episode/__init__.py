"""Parts of an episode: task, document, tools, session, rewards, and rendering of the page.

The caller of a session passes verdicts to it, so this package does not import `resume_gym.env`.
Only the modules `feedback` and `hints` import `resume_gym.judges`, whose rules make the remarks.
"""
