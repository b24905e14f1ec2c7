"""Files that outlive a process: the sweep home, its lock, the journal and the tracking store."""
