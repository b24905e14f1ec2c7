"""The parts of the benchmark `turn_statistics`: the turns, and what statistics say of them."""
