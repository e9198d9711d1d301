"""Helpers for files, terminals, command lines and messages.

Modules of this package import no other part of `resume_gym`.
"""
