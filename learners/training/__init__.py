"""Training of a policy: batches, attention, backends and checkpoints."""
