"""The process of a command: `rnnsweep`, or `python -m orchestrator` where it is not installed.

Nothing of ours is imported before it is known that it can be: a node may lack our dependencies.
"""

import atexit
import gc
import sys

_REFUSED, _STOPPED = 2, 3
_READERS = ("report", "query", "compare", "run", "status")


def main() -> None:
    """Run the command line; Ctrl-C ends it also while it is imported."""
    try:
        _run()
    except KeyboardInterrupt:
        sys.stderr.write("Stopped.\n")
        sys.exit(_STOPPED)


def _run() -> None:
    """Run the command line, or name the package that this Python lacks."""
    try:
        from orchestrator.cli import main as cli  # noqa: PLC0415
    except ImportError as error:
        if (module := sys.modules.get((error.name or "").partition(".")[0])) is not None:
            sys.stderr.write(
                f"Error: rnnsweep cannot use {module}: {error}. If that is a package of yours, "
                "rename it, or remove its folder from PYTHONPATH\n"
            )
            sys.exit(_REFUSED)
        sys.stderr.write(
            f"Error: {error.name} is not installed in {sys.executable}. Nothing was run. Install "
            "rnnsweep's dependencies on every node, in the Python that runs Ray (pip install -r "
            "requirements.lock)\n"
        )
        sys.exit(_REFUSED)
    if sys.argv[1:2] and sys.argv[1] in _READERS:
        gc.set_threshold(200_000)  # they build one large structure: a quarter of their time
        if sys.argv[1] != "query":  # DuckDB reports everything that is left at exit
            atexit.register(gc.freeze)
    cli.main(prog_name="rnnsweep")


if __name__ == "__main__":
    main()
