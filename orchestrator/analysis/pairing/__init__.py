"""Complete rounds and the pairs of arms within them."""
