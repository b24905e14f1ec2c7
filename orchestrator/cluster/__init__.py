"""Ray clusters: connection, membership, autoscaler, code bundle and jobs."""
