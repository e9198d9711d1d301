"""Create, check, describe and share task files for training.

Documents of users and generated tasks stay apart: this package does not import
`resume_gym.synthesis`.
"""
