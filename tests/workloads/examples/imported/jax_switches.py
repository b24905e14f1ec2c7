"""A file that changes a switch of JAX."""

import jax

from tests.workloads.examples.own_models import build, load

__all__ = ["build", "load"]

jax.config.update("jax_default_matmul_precision", "bfloat16")
