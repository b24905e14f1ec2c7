"""One-off checks: bench, doctor, the listing of hardware, the tables of workloads."""
