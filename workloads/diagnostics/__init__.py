"""Questions to a trainer process from `rnnsweep doctor` and from a start of a sweep."""
