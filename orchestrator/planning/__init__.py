"""What runs where: arms that can run, arms that cannot and why, lanes, prices."""
