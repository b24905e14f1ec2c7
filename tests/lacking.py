"""What a machine lacks for a test."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def skip_here(reason: str) -> NoReturn:
    """Skip the test: its user need not have everything. Fail it in CI, which is to install that.

    Args:
        reason: what is lacking, and what installs it.
    """
    if os.environ.get("RNNSWEEP_TEST_ALL") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
