"""A test with missing requirements: skipped on a user's machine, failed in CI."""

from __future__ import annotations

import pytest

from tests.lacking import skip_here


@pytest.mark.parametrize(
    ("value", "outcome"), [("", pytest.skip.Exception), ("1", pytest.fail.Exception)]
)
def test_missing_requirements_fail_the_test_only_in_ci(
    value: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RNNSWEEP_TEST_ALL", value)
    with pytest.raises(outcome, match="no cake here"):
        skip_here("no cake here: bake one")
