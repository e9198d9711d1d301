"""A run's folder, logs and model card."""
