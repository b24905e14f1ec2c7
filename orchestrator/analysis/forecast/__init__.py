"""Forecasts of the trials that are missing: time, memory and further blocks."""
