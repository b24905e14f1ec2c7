"""A thousand nodes, a hundred thousand trials: what each part of a sweep then costs."""

import sys
from collections.abc import Callable
from typing import Any

from infra.benchmarks import rig
from infra.benchmarks.scaling import decisions, endurance, overhead, samplers

PARTS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "decisions": decisions.measure,
    "samplers": samplers.measure,
    "overhead": overhead.measure,
    "endurance": endurance.measure,
    "restart": endurance.restart,
}


def main() -> int:
    parser = rig.arguments(__doc__)
    parser.add_argument("--only", choices=PARTS, action="append", help="measure this part")
    asked = parser.parse_args()
    environment = rig.environment("optuna")
    rows = [row for name, part in PARTS.items() if name in (asked.only or PARTS) for row in part()]
    table = rig.table(rows, {"figure": ".3f", "limit": ".1f"})
    name = "-".join(["scale", *(asked.only or [])])
    rig.publish(asked.output, name, environment, [str(__doc__), table], figures=rows)
    return int(any(row["missed"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
