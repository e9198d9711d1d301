"""Applications behind the commands `plot`, `revise` and `view`.

Applications show what others wrote, so this package does not import `learners` or
`resume_gym.cli`.
"""
