"""One-off checks: parity, hardware peaks and the catalogue of workloads."""
