"""Contrasts: every answer to "is this better than that, by this metric?"."""
