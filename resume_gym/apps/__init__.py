"""Applications behind the commands `play`, `plot`, `revise` and `view`."""
