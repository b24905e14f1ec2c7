"""Code inside a trainer process, without `orchestrator`: `python -m workloads` runs a trial."""
