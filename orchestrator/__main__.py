"""`python -m orchestrator`: the command line where `rnnsweep` is not installed, as on a cluster.

Nothing of ours is imported before it is known that it can be: a node may lack what we need.
"""

from __future__ import annotations

import sys

_REFUSED = 2


def main() -> None:
    """Run the command line, or say what this Python lacks."""
    try:
        from orchestrator.cli import main as cli  # noqa: PLC0415
    except ModuleNotFoundError as error:
        sys.stderr.write(
            f"Error: {error.name} is missing in {sys.executable}: rnnsweep's code travels, its "
            "dependencies do not. Install them in the Python that Ray runs in, on every node (pip "
            "install -r requirements.lock). Nothing was run\n"
        )
        sys.exit(_REFUSED)
    cli.main(prog_name="rnnsweep")


if __name__ == "__main__":
    main()
