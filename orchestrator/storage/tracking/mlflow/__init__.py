"""MLflow: all that is particular to it. Nothing outside this folder imports MLflow."""
