"""Data sets: their sources, their digests, and their loading into arrays."""
