"""What an episode is made of: task, document, tools, session, rewards and the drawing of its page.

A session receives verdicts from its caller, so this package does not import `resume_gym.env`. Only
the module `feedback` imports `resume_gym.judges`, for its remarks.
"""
