"""A simulated NVML at its C boundary, for machines without a GPU."""
