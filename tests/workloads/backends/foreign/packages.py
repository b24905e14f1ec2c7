"""A folder that makes the foreign backends installed packages for processes that see it."""

import os
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[4]
PACKAGE = __name__.rpartition(".")[0]
ENTRY_POINTS = f"""[rnnsweep.backends]
mirror = {PACKAGE}:MIRROR
array = {PACKAGE}:ARRAY
absent = nowhere_at_all:BACKEND
nameless = {PACKAGE}:NAMELESS
wrong = builtins:dict
again = {PACKAGE}:MIRROR
"""


def install(folder: Path) -> Mapping[str, str]:
    """Write the metadata of a package into a folder; return the environment that shows it."""
    metadata = folder / "foreign_backends-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: foreign-backends\nVersion: 1.0\n"
    )
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    return {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
