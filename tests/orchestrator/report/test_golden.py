"""Whole reports are those that were approved."""

import json

import pytest

from tests.orchestrator.report.golden import FOLDER, reports

REPORTS = reports()


@pytest.mark.parametrize("name", REPORTS)
def test_reports_are_those_kept(name: str) -> None:
    """After an intended change: `python -m tests.orchestrator.report.golden`, and read the diff."""
    content, kept = REPORTS[name](), (FOLDER / name).read_text(encoding="utf-8")
    if name.endswith(".json"):
        assert json.loads(content, parse_float=_rounded) == json.loads(kept, parse_float=_rounded)
    else:
        assert content == kept


def _rounded(number: str) -> float:
    """Round a number to nine figures: processors differ in the last ones."""
    return float(f"{float(number):.9g}")
