"""A file that changes switches of PyTorch, as scripts do for their own process."""

import torch

from tests.workloads.examples.own_modules import build, load, loss

__all__ = ["build", "load", "loss"]

torch.set_num_threads(torch.get_num_threads() + 1)
torch.set_num_interop_threads(7)
torch.backends.cuda.matmul.allow_tf32 = True
torch.use_deterministic_algorithms(True)
