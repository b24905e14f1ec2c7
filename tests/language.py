"""Check of the project's language: banned words in prose, bare adverbs as names.

The rules are few and mechanical; the reasons for them are in docs/glossary.md. Run it on some
files with `python -m tests.language FILE...`, or on everything that git tracks without arguments.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

PROSE = re.compile(
    r"""\b(?:
    (?:un|fore)?told | (?:fore)?tell(?:s|ing)? | say|says|said|saying
    | anew | beside | how-manieth | in\ thought
    | (?:go|goes|going|went|gone)\ on
    | (?:stand|stands|standing|stood)\ for
    | (?:become|becomes|becoming|became)\ of
    | (?:be|is|are|was|were|been)\ due
    | sing|sings|sang|sung
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)
OPENING = re.compile(r"(?:What|Whether|Say|Says|Tell|Tells)\b")
NAMES = frozenset(
    {"again", "along", "beside", "each", "elsewhere", "found", "known", "left", "past"}
    | {"said", "told", "untold"}
)
PARTS = frozenset(
    {"anew", "beside", "foretell", "foretells", "foretold", "said", "say", "says"}
    | {"tell", "tells", "told", "untold"}
)

PYTHON = (".py",)
TEXT = (".md", ".yaml", ".yml", ".toml", ".jinja", ".sh", ".sbatch", ".Dockerfile", ".ini", ".sql")
SKIPPED = ("tests/benchmarks/results/", "tests/language.py", "tests/test_language.py", "LICENSE")
ALLOWED: dict[tuple[str, str], str] = {}
"""Hits that are right, by file and word, each with its reason."""

_CODE = re.compile(r"``.*?``|`[^`\n]*`|```.*?```", re.DOTALL)
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")


@dataclass(frozen=True, slots=True)
class Hit:
    """A place that breaks a rule."""

    file: str
    line: int
    word: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.word}: {self.text.strip()[:90]}"


def tracked_files() -> list[str]:
    """Return the files of the checkout that git tracks or would track."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


def check(files: Sequence[str]) -> list[Hit]:
    """Return every hit in these files, but for those that are allowed."""
    hits: list[Hit] = []
    for name in files:
        if name.startswith(SKIPPED):
            continue
        text = (ROOT / name).read_text(encoding="utf-8", errors="replace")
        if name.endswith(PYTHON):
            hits += _python(name, text)
        elif name.endswith(TEXT) or Path(name).name in ("Makefile", "run"):
            hits += _prose(name, 1, text)
    return [hit for hit in hits if (hit.file, hit.word.lower()) not in ALLOWED]


def _prose(file: str, line: int, text: str) -> Iterator[Hit]:
    plain = _CODE.sub(lambda match: "\n" * match[0].count("\n") or " ", text)
    for match in PROSE.finditer(plain):
        begin = plain.rfind("\n", 0, match.start()) + 1
        end = plain.find("\n", match.end())
        yield Hit(
            file,
            line + plain.count("\n", 0, match.start()),
            " ".join(match[0].split()),
            plain[begin : end if end >= 0 else None],
        )


def _python(file: str, text: str) -> Iterator[Hit]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield from _prose(file, token.start[0], token.string)
        elif token.type == tokenize.STRING and " " in token.string:
            words = _PLACEHOLDER.sub(" ", token.string) if "{" in token.string else token.string
            yield from _prose(file, token.start[0], words)
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node) or ""
            if match := OPENING.match(docstring):
                line = getattr(node, "lineno", 1)
                yield Hit(file, line, match[0], f"docstring begins with {docstring[:60]!r}")
        for name in _names(node):
            parts = re.findall(r"[a-z]+|[A-Z][a-z]*", name)
            bad = [part for part in parts if part.lower() in PARTS]
            if name in NAMES or bad:
                yield Hit(file, getattr(node, "lineno", 1), name, f"name {name}")


def _names(node: ast.AST) -> Iterator[str]:
    """The names that a node defines."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            yield name
        case ast.arg(arg=name):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name


def main(arguments: Sequence[str]) -> int:
    """Print the hits of some files, or of all, and their number."""
    hits = check(arguments or tracked_files())
    for hit in hits:
        print(hit)
    print(f"{len(hits)} hits")
    return 1 if hits else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
