"""Test corrected p-values against statsmodels, which is too slow to import for a report."""

from __future__ import annotations

import random

import pytest
from statsmodels.stats.multitest import multipletests

from orchestrator.analysis.statistics.verdicts import judge


@pytest.mark.parametrize("tests", [1, 2, 5, 19])
def test_holms_procedure_matches_statsmodels(tests: int) -> None:
    draw = random.Random(tests)
    samples = [[draw.gauss(0.03 * (place % 3), 0.05) for _ in range(12)] for place in range(tests)]
    alone = [judge([sample], 0.02)[0].p_value for sample in samples]
    together = [judgement.p_value for judgement in judge(samples, 0.02)]
    assert together == pytest.approx(list(multipletests(alone, method="holm")[1]))
    assert tests == 1 or together != alone
