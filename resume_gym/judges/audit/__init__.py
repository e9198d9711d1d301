"""Evaluation of judges: labelled pairs, attacks, agreement statistics and drift."""
