"""Queries of the trials of sweeps in SQL, by DuckDB."""
