"""Play episodes with a policy."""
