"""Check that a workload can be imported: `python -m workloads.trainer.import_check WORKLOAD`.

The exit status is 0 if its function exists, `UNUSABLE` if it does not or its module fails, and
`LACKING` if the module imports a package that is not installed here. The reason is the last line
of stdout.
"""

from __future__ import annotations

import os
import sys

from workloads.failures import BadRequest
from workloads.registry import find_workload
from workloads.trainer.requests import entry_function

UNUSABLE, LACKING = 3, 4


def main(name: str) -> int:
    """Import a workload and return the exit status; the module's own output goes to stderr."""
    reasons = os.dup(1)
    os.dup2(2, 1)
    try:
        entry_function(find_workload(name))
    except BadRequest as error:
        status, reason = UNUSABLE, str(error).removeprefix(f"workload {name!r}: ")
    except ImportError as error:
        status, reason = LACKING, f"{type(error).__name__}: {error}"
    except BaseException as error:  # noqa: BLE001  (an import may also end the process)
        status, reason = UNUSABLE, f"{type(error).__name__}: {error}"
    else:
        return 0
    os.write(reasons, " ".join(reason.split()).encode(errors="replace"))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
