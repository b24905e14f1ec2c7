"""The sweeps that come with rnnsweep: files of `sweeps/`, which commands take by their names."""

from pathlib import Path

from orchestrator.core.version import ROOT


def sweeps_folder() -> Path:
    """Return the folder of the shipped sweeps, in the installed wheel or else in the checkout."""
    packaged = ROOT / "orchestrator" / "sweeps"
    return packaged if packaged.is_dir() else ROOT / "sweeps"


def shipped_sweeps() -> dict[str, Path]:
    """Return the specs of the shipped sweeps by their names, such as `quickstart`."""
    specs = sorted(sweeps_folder().glob("*.yaml"))
    return {path.stem.replace("_", "-"): path for path in specs if path.stem != "prices"}


def find_spec(path: Path) -> Path:
    """Return the file of a spec: the path itself, or the shipped sweep of that name.

    A file of the user's comes before a shipped sweep. A path that is neither is returned as it is:
    `load_spec` refuses it.
    """
    shipped = shipped_sweeps().get(str(path).replace("_", "-"))
    return path if shipped is None or path.is_file() else shipped


def spec_as_typed(path: Path) -> str:
    """Return what to type for the file of a spec: the name of a shipped sweep, or else the path."""
    names = {shipped: name for name, shipped in shipped_sweeps().items()}
    return names.get(path, str(path))
