"""The best config of a sweep: its choice, its spec, and the code that puts it to use."""
