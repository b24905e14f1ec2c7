"""A sweep's trials in MLflow: written exactly once, and read back. Imports no MLflow."""
