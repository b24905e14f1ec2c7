"""Parts of `infra.benchmarks.trust`, each with promises and findings."""
