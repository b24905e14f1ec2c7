"""A test that lacks something: skipped on a user's machine, failed in CI."""

from __future__ import annotations

import pytest

from tests.lacking import skip_here


@pytest.mark.parametrize(
    ("value", "outcome"), [("", pytest.skip.Exception), ("1", pytest.fail.Exception)]
)
def test_what_is_lacking_is_a_failure_only_where_all_is_to_be_tested(
    value: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RNNSWEEP_TEST_ALL", value)
    with pytest.raises(outcome, match="no cake here"):
        skip_here("no cake here: bake one")
