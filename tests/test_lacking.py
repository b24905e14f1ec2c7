"""A test with missing requirements: skipped on a user's machine, failed in CI."""

from __future__ import annotations

import pytest

from tests.lacking import skip_here


@pytest.mark.parametrize(
    ("in_ci", "outcome"), [(False, pytest.skip.Exception), (True, pytest.fail.Exception)]
)
def test_missing_requirements_fail_the_test_only_in_ci(
    in_ci: bool, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.lacking.IN_CI", in_ci)
    with pytest.raises(outcome, match="no cake here"):
        skip_here("no cake here: bake one")
