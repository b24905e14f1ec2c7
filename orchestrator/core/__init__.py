"""Plain data of a sweep: arms, trials, outcomes, records, names and errors. No I/O."""
