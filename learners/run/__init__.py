"""A run's folder, alarms, progress, loggers and model card."""
