"""Data sets: where they come from, their digests, and their loading into arrays."""
