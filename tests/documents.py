"""The pages of the documents, and the blocks of code in them."""

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def blocks(language: str, *pages: Path) -> list[tuple[str, str]]:
    """Return the blocks of a language, each with the name of its page."""
    found_in = ((page, page.read_text(encoding="utf-8")) for page in pages or PAGES)
    fence = re.compile(rf"^```{language}\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return [(page.name, block) for page, text in found_in for block in fence.findall(text)]


def commands(*pages: Path) -> list[list[str]]:
    """Return the words of all commands in the blocks that are no illustrations."""
    lines = [line for _, block in blocks("console", *pages) for line in block.splitlines()]
    return [shlex.split(line[2:], comments=True) for line in lines if line.startswith("$ ")]


def rnnsweep_commands(*pages: Path) -> list[list[str]]:
    """Return the arguments of each command `rnnsweep`."""
    return [words[1:] for words in commands(*pages) if words[0].endswith("rnnsweep")]
