"""Play, grade and store episodes of a policy.

The trainer receives finished rows of tokens, so this package does not import `learners.losses`,
`learners.advantages` or `learners.run`.
"""
