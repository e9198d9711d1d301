"""Play, grade and store episodes of a policy.

`orchestrator` plays the episodes of a step, and the held-out tasks. It records each episode as a
`Rollout`, whose `sample` goes to the trainer; `learners.training.rows` packs samples into rows.

The trainer knows only token ids, so this package does not import `learners.losses`,
`learners.advantages` or `learners.run`.
"""
