"""Skip a test whose programs or packages are missing, or fail it in CI."""

from typing import NoReturn

import pytest

from tests.profiles import IN_CI


def skip_here(reason: str) -> NoReturn:
    """Skip the test, as users need not install everything; fail it in CI, which must."""
    if IN_CI:
        pytest.fail(reason)
    pytest.skip(reason)
