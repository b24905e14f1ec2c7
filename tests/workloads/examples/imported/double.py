"""A file that sets the type of all numbers."""

from keras import config

from tests.workloads.examples.own_models import build, load

__all__ = ["build", "load"]


def compute_in_double() -> None:
    config.set_floatx("float64")


compute_in_double()
