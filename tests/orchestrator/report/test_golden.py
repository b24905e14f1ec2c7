"""Whole reports are those that were approved."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.orchestrator.report.golden import FOLDER, reports

REPORTS = dict(reports())


@pytest.mark.parametrize("name", REPORTS)
def test_reports_are_those_kept(name: str) -> None:
    """After an intended change: `python -m tests.orchestrator.report.golden`, and read the diff."""
    content, kept = REPORTS[name], (FOLDER / name).read_text(encoding="utf-8")
    if name.endswith(".json"):
        assert _rounded(json.loads(content)) == _rounded(json.loads(kept))
    else:
        assert content == kept


def _rounded(value: Any) -> Any:
    """Round numbers to nine figures: processors differ in the last ones."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value
