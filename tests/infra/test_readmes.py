"""The README of each folder of `infra/` names existing files, and every file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.infra.documents import INFRA, ROOT

FOLDERS = sorted(path for path in INFRA.iterdir() if path.is_dir())
READMES = [INFRA / "README.md", *(folder / "README.md" for folder in FOLDERS)]


def files_named(readme: Path) -> set[str]:
    """Return the paths in code spans and commands: spans with a slash or a file ending."""
    text = readme.read_text()
    spans = set(re.findall(r"`((?:\.\./)?[\w-]+(?:/[\w./-]*|\.(?:yaml|sbatch|txt|ini)))`", text))
    return spans | set(re.findall(r"(?<![\w/~])((?:infra|sweeps)/[\w/-]+(?:\.\w+)*)", text))


@pytest.mark.parametrize("readme", READMES, ids=lambda path: path.parent.name)
def test_a_readme_names_existing_files(readme: Path) -> None:
    for name in files_named(readme):
        assert (readme.parent / name).exists() or (ROOT / name).exists(), name


def test_every_file_is_named_by_a_readme() -> None:
    for folder in FOLDERS:
        text = (folder / "README.md").read_text()
        for path in folder.rglob("*"):
            is_exempt = path.name.startswith(".") or path.suffix == ".dockerignore"
            if path.is_file() and path.name != "README.md" and not is_exempt:
                names = (path.name, f"{path.parent.name}/")
                assert any(name in text for name in names), path
