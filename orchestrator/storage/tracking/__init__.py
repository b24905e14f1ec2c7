"""A sweep's trials in a tracker: written exactly once, and read back."""
