"""Stores of former versions, which every later version reads.

`make frozen-store` runs small real sweeps, and keeps what they leave in a folder of this one, named
after the version: the whole home (`home.tar.xz`: journals, MLflow's SQLite file, artifacts with
`trials.parquet`), the JSON of commands, and `formats.json`, the numbers and shapes of all formats.
The folder of a release is never changed or removed again. The folder of a development version is
replaced whenever a format changes.
"""

import json
import tarfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
HOME_FILE, FORMATS_FILE = "home.tar.xz", "formats.json"


def frozen_stores() -> list[Path]:
    """Return the folder of each version."""
    return sorted(path.parent for path in FOLDER.glob(f"*/{FORMATS_FILE}"))


def formats_of(store: Path) -> dict[str, Any]:
    """Return the formats of a version: by name, the number and the shape."""
    formats: dict[str, Any] = json.loads((store / FORMATS_FILE).read_text())
    return formats


def is_release(store: Path) -> bool:
    """Whether a folder is of a released version."""
    return ".dev" not in store.name


def unpack_home(store: Path, folder: Path) -> Path:
    """Unpack the home of a version into a folder, and return it."""
    with tarfile.open(store / HOME_FILE) as archive:
        archive.extractall(folder)
    return folder / "home"
