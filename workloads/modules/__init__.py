"""PyTorch modules of the user's own, and the training loop that rnnsweep runs for them."""
