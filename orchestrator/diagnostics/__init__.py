"""One-off checks: hardware peaks and the catalogue of workloads."""
