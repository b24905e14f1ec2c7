"""`synthetic`: the recurrent layers alone, forward and both ways, on random input."""
