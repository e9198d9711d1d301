"""Training backends, which hold the policy's weights and optimizer; `local` has the interface."""
