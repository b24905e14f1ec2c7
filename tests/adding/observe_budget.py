"""Prints what the key limits.budget_kwh does, which `test_spec_key` adds."""

import json
import tempfile
from pathlib import Path

from orchestrator.cli import reference
from orchestrator.spec import spec_schema
from orchestrator.storage.home import SweepFolder
from tests.building.scheduling import build_outcome_of
from tests.building.sessions import SampleSession
from tests.building.specs import USER_WORKLOAD, build_spec_text

SPEC = build_spec_text(
    USER_WORKLOAD,
    name="mine",
    configs=10,
    space={"layers": {"low": 1, "high": 99}},
    limits={"budget_kwh": 2.5},
)


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        sample = SampleSession(SweepFolder(Path(home), "mine").generation(1), SPEC)
        ending = sample.work().plan.ending
        while not sample.dispatcher.done:
            assignment = sample.assign()
            sample.session.finish(assignment, build_outcome_of(assignment, energy_j=3.6e6))
        later = sample.killed(SPEC).work()
        decision = sample.state().stop_decision
    limits = spec_schema.spec_schema()["$defs"]["Limits"]["properties"]
    observed = {
        "ending": ending,
        "trials": len(sample.recorded),
        "reason": decision and decision.reason,
        "later": [later.missing, later.plan.ending],
        "schema": limits["budget_kwh"]["description"],
        "pages": [
            page for page, text in reference.generated_parts().items() if "budget_kwh" in text
        ],
    }
    print(json.dumps(observed))


if __name__ == "__main__":
    main()
