"""A thousand nodes, a hundred thousand trials: what each part of a sweep then costs."""

import sys

from tests.benchmarks import rig
from tests.benchmarks.scaling import decisions, samplers

PARTS = {"decisions": decisions.measure, "samplers": samplers.measure}


def main() -> int:
    parser = rig.arguments(__doc__)
    parser.add_argument("--only", choices=PARTS, help="measure one part")
    asked = parser.parse_args()
    environment = rig.environment("optuna")
    rows = [row for name, part in PARTS.items() if asked.only in (None, name) for row in part()]
    table = rig.table(rows, {"figure": ".3f", "limit": ".1f"})
    name = f"scale-{asked.only}" if asked.only else "scale"
    rig.publish(asked.output, name, environment, [str(__doc__), table], figures=rows)
    return int(any(row["missed"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
