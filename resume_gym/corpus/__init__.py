"""Create, check, describe and share task files for training."""
