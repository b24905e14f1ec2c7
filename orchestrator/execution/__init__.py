"""One round on one node: the turns of its trials, trainer processes, limits and telemetry."""
