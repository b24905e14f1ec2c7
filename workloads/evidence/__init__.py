"""Evidence of which kernel ran, read from what a backend was given to run."""
