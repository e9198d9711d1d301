"""Evaluation of judges: labelled pairs, agreement statistics and drift."""
