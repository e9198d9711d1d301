"""Figures of training runs and evaluations; `plot.plot` is the entry point."""
