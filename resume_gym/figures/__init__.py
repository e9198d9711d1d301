"""Figures of training runs, drawn with matplotlib from metrics and evaluations.

A training run draws its dashboard while it runs, and `resume-gym plot` draws it afterwards, so this
package does not import `resume_gym.apps` or `learners`.
"""
