"""Play, grade and store episodes of a policy."""
