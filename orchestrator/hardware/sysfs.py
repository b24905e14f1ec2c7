"""Small files of `/proc` and `/sys`, read without ever raising."""

from __future__ import annotations

from pathlib import Path


def text_of(file: Path) -> str | None:
    """Return the text of a file, stripped; None where it is unreadable or empty."""
    try:
        return file.read_text(errors="replace").strip() or None
    except OSError:
        return None


def number_of(file: Path) -> int | None:
    """Return the whole number in a file, decimal or `0x…`."""
    try:
        return int(text_of(file) or "", 0)
    except ValueError:
        return None


def numbered(folder: Path, name: str) -> list[Path]:
    """Return `cpu0`, `cpu1`, … of a folder in the order of their numbers; empty if absent."""
    paths = {path.name.removeprefix(name): path for path in folder.glob(f"{name}[0-9]*")}
    return [paths[number] for number in sorted(filter(str.isdigit, paths), key=int)]
