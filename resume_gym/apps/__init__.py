"""Applications behind the commands `play`, `plot`, `revise` and `view`.

Applications show what others wrote, so this package does not import `learners` or
`resume_gym.cli`.
"""
