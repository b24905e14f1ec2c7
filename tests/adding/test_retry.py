"""How a lost attempt is retried: one condition in one file, as the page says."""

import re
from pathlib import Path

from tests.adding.copied_project import copy_project
from tests.documents import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
(CONDITION,) = re.findall(r"^```python\n(if .*)$", PAGE, re.MULTILINE)
USUAL = "        if lost - preempted < self.attempts and preempted <= self.preemptions:"
RECOVERY = "orchestrator/scheduling/recovery.py"


def test_the_rule_of_retries_is_one_condition(tmp_path: Path) -> None:
    project = copy_project(tmp_path)
    module = "tests.adding.observe_retry"
    assert project.observe(module) == {"with its node": 5, "alone": 3, "in turn": 6}
    project.replace_line(RECOVERY, USUAL, f"        {CONDITION}")
    assert project.observe(module) == {"with its node": 3, "alone": 3, "in turn": 3}
