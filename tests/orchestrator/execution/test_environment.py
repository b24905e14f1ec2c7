"""What is recorded beside a trial."""

from __future__ import annotations

from orchestrator import __version__
from orchestrator.execution.environment import recorded_environment


def test_the_surroundings_name_versions_and_node_and_nothing_absent() -> None:
    facts = recorded_environment()
    assert facts["rnnsweep"] == __version__
    assert {"ray", "optuna", "system", "cpu_model", "memory_mib"} <= set(facts)
    assert None not in facts.values()
