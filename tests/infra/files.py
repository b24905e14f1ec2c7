"""Readers of the files of `infra/`, and a check of shell scripts."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.lacking import skip_here

ROOT = Path(__file__).resolve().parents[2]
INFRA = ROOT / "infra"
CLUSTERS = ("cloud", "compose", "images", "kubernetes", "machines", "slurm", "tls")
"""The folders that start clusters; the others are programs."""


def documents(path: Path) -> list[dict[str, Any]]:
    loaded = list(yaml.safe_load_all(path.read_text()))
    assert loaded, f"{path} is empty"
    assert all(isinstance(item, dict) for item in loaded), path
    return loaded


def document(path: Path) -> dict[str, Any]:
    (only,) = documents(path)
    return only


def check_shell(script: str) -> None:
    if shutil.which("shellcheck") is None:
        skip_here("shellcheck is not installed here: apt-get install shellcheck")
    command = ["shellcheck", "--shell=bash", "-"]
    done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
