"""One trial, or one interleaved round, on one node: trainer processes, limits and telemetry."""
