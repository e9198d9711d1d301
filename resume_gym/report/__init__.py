"""Pictures and pages of what runs and evaluations left behind; see `plot`."""
