"""Comparisons between arms: speed, accuracy, targets, crossovers, break-even and rankings."""
