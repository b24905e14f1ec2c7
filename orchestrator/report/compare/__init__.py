"""Comparison of two sweeps, or of two generations of one: changes beyond noise."""
