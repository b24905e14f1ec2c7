"""Metrics of a trial, and those derived from them."""
