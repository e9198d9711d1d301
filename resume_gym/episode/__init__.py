"""Parts of an episode: task, document, tools, session, rewards, and rendering of the page.

`editing` is the state machine of an episode in any domain, and `session` its subclass for resumes.
The tool `str_replace` changes the text in `document`. `rewards` computes the terms of a reward,
which `editing` adds to the episode's ledger. `tasks` and `sources` define and load tasks.

The caller of a session passes verdicts to it, so this package does not import `resume_gym.env`.
Only the modules `feedback` and `hints` import `resume_gym.judges`, whose rules make the remarks.
"""
