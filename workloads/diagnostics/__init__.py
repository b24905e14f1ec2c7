"""Questions to a trainer process from `rnnsweep doctor` and `hardware`."""
