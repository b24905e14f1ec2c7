"""Parts of `tests.benchmarks.trust`, each with promises and findings."""
