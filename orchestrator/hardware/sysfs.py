"""Small files of `/proc` and `/sys`, read without ever raising."""

from __future__ import annotations

from pathlib import Path


def text_of(file: Path) -> str | None:
    """What a file says, stripped; None where it cannot be read or says nothing."""
    try:
        return file.read_text(errors="replace").strip() or None
    except OSError:
        return None


def number_of(file: Path) -> int | None:
    """A whole number that a file says, decimal or `0x…`."""
    try:
        return int(text_of(file) or "", 0)
    except ValueError:
        return None


def numbered(folder: Path, name: str) -> list[Path]:
    """`cpu0`, `cpu1`, … of a folder in the order of their numbers; nothing where it is absent."""
    found = {each.name.removeprefix(name): each for each in folder.glob(f"{name}[0-9]*")}
    return [found[number] for number in sorted(filter(str.isdigit, found), key=int)]
