"""Questions to a trainer process from `rnnsweep doctor`, `hardware` and `parity`."""
