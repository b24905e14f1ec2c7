"""A key of the spec with a rule that stops a sweep: as the page says, it takes three files."""

import re
from pathlib import Path
from textwrap import indent

from tests.adding.copied_project import copy_project
from tests.documents import ROOT

PAGE = (ROOT / "docs" / "adding" / "spec_key.md").read_text(encoding="utf-8")

FIELD, RULE, ENTRY = re.findall(r"^ *```python\n(.*?)^ *```", PAGE, re.DOTALL | re.MULTILINE)

IMPORT = "from orchestrator.analysis.energy_budget import EnergyBudget\n"


def test_the_example_of_the_page_stops_a_sweep(tmp_path: Path) -> None:
    project = copy_project(tmp_path)
    project.insert_after(
        "orchestrator/spec/sections.py",
        '    """Limits of trials, of failures, and of waiting for hardware."""',
        f"\n{FIELD}",
    )
    rule = project.folder / "orchestrator" / "analysis" / "energy_budget.py"
    rule.write_text(f'"""A budget of energy."""\n\n{RULE}', encoding="utf-8")
    rules = "orchestrator/scheduling/stopping_rules.py"
    project.insert_after(rules, "    rules: list[StoppingRule] = []", indent(ENTRY, "    "))
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
