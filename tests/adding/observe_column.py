"""Prints where the column epochs_run appears, which `test_metric` adds."""

import json

from orchestrator.cli import reference
from orchestrator.report.query import query_records
from orchestrator.storage.tracking.trial_content import trial_content
from tests.building.arms import PORTABLE
from tests.building.records import build_record
from tests.building.trials import IDENTITY, build_trial


def main() -> None:
    finished = build_trial(0, PORTABLE)
    record = build_record([finished], (PORTABLE,))
    observed = {
        "pages": [
            page for page, text in reference.generated_parts().items() if "epochs_run" in text
        ],
        "tag": trial_content(IDENTITY, finished).tags["epochs_run"],
        "rows": query_records({"sweep": record}, "epochs_run = 0", ["epochs_run"])[
            "epochs_run"
        ].tolist(),
    }
    print(json.dumps(observed))


if __name__ == "__main__":
    main()
