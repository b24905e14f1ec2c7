"""The parts of `tests.benchmarks.unlike_nodes`: nodes, sweeps over them, how busy they were."""
