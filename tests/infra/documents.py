"""Readers of the files of `infra/`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
INFRA = ROOT / "infra"


def documents(path: Path) -> list[dict[str, Any]]:
    """Return every document of a YAML file."""
    loaded = list(yaml.safe_load_all(path.read_text()))
    assert loaded, f"{path} is empty"
    assert all(isinstance(item, dict) for item in loaded), path
    return loaded


def document(path: Path) -> dict[str, Any]:
    """Return the one document of a YAML file."""
    (only,) = documents(path)
    return only


def locked(package: str) -> str:
    """Return the pinned version of a package, which must be the same in both lock files."""
    versions = {
        version
        for lock in ("requirements.lock", "requirements-cluster.lock")
        for version in re.findall(
            rf"^{re.escape(package)}==(\S+)", (ROOT / lock).read_text(), re.MULTILINE
        )
    }
    (version,) = versions
    return version
