"""What `infra/` consists of, read for the tests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
INFRA = ROOT / "infra"


def documents(path: Path) -> list[dict[str, Any]]:
    """Every document of a YAML file."""
    found = list(yaml.safe_load_all(path.read_text()))
    assert found, f"{path} is empty"
    assert all(isinstance(each, dict) for each in found), path
    return found


def document(path: Path) -> dict[str, Any]:
    """The one document of a YAML file."""
    (only,) = documents(path)
    return only


def locked(package: str) -> str:
    """The version of a package that is pinned, for one machine and for a cluster alike."""
    versions = {
        version
        for lock in ("requirements.lock", "requirements-cluster.lock")
        for version in re.findall(
            rf"^{re.escape(package)}==(\S+)", (ROOT / lock).read_text(), re.MULTILINE
        )
    }
    (version,) = versions
    return version
