"""Parts of `tests.benchmarks.unlike_nodes`: nodes, sweeps over them, and their idle time."""
