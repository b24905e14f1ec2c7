"""A stand-in for NVML at its C boundary, for machines without a GPU."""
