"""What survives a process: the sweep home, its lock, the journal, resume, and MLflow."""
