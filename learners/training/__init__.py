"""Train a policy: batches, attention, backends."""
