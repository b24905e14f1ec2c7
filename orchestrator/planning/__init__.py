"""The plan of a sweep: arms that can run, arms that cannot and why, lanes of work and prices."""
