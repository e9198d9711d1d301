"""Training backends, which hold weights and optimizer; `LocalBackend` defines their interface."""
