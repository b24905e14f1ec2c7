"""Each arm by itself: phases, learning, validity, best configs and trade-offs."""
