"""A key of the spec with a rule that stops a sweep takes three files."""

from pathlib import Path

from tests.adding.copied_project import copy_project
from tests.documents import ROOT

FIELD = """
    budget_kwh: fields.PositiveFloat | None = pydantic.Field(
        None, description="Measured energy of the timed epochs after which the sweep stops."
    )
"""
IMPORT = "from orchestrator.analysis.energy_budget import EnergyBudget\n"
ENTRY = """\
    if spec.limits.budget_kwh is not None:
        rules.append(EnergyBudget(spec.limits.budget_kwh))
"""


def test_a_key_and_its_rule_stop_a_sweep(tmp_path: Path) -> None:
    project = copy_project(tmp_path)
    project.insert_after(
        "orchestrator/spec/sections.py",
        '    """Limits of trials, of failures, and of waiting for hardware."""',
        FIELD,
    )
    rule = (ROOT / "tests" / "adding" / "energy_budget.py").read_text(encoding="utf-8")
    analysis = project.folder / "orchestrator" / "analysis"
    (analysis / "energy_budget.py").write_text(rule, encoding="utf-8")
    rules = "orchestrator/scheduling/stopping_rules.py"
    project.insert_after(rules, "    rules: list[StoppingRule] = []", ENTRY)
    project.insert_after(rules, "from collections.abc import Sequence", IMPORT)
    observed = project.observe("tests.adding.observe_budget")
    assert observed == {
        "ending": "open",
        "trials": 3,
        "reason": "3 kWh are used (limits.budget_kwh)",
        "later": [0, "decided"],
        "schema": "Measured energy of the timed epochs after which the sweep stops.",
        "pages": ["spec.md"],
    }
