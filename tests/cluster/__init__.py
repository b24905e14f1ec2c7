"""Sweeps on a real cluster whose hosts are namespaces of this machine. Needs root."""
