"""What the benchmark of reports is made of: a sweep of 10,000 trials, and commands measured."""
