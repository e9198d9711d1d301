"""Analysis of resume text: lines, writing style, and true statements about the candidate.

Judges, agents and generators share this analysis, so this package does not import
`resume_gym.judges`, `resume_gym.agents` or `resume_gym.synthesis`.
"""
