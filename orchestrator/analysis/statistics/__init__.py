"""Estimates, intervals, verdicts and regression."""
