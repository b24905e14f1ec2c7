"""Check of the project's language: banned words in prose, bare adverbs as names.

The rules are few and mechanical; the reasons for them are in docs/glossary.md. Run it on some
files with `python -m tests.language FILE...`, or on everything that git tracks without arguments.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Sequence
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

_CODE = re.compile(r"``.*?``|`[^`\n]*`|```.*?```", re.DOTALL)
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")


def tracked_files() -> list[str]:
    """Return the files of the checkout that git tracks or would track."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


def check(files: Sequence[str]) -> list[str]:
    """Return every place in these files that breaks a rule, as `FILE:LINE: WORD`."""
    hits: list[str] = []
    for name in files:
        if name.startswith(SKIPPED):
            continue
        text = (ROOT / name).read_text(encoding="utf-8", errors="replace")
        if name.endswith(PYTHON):
            hits += _python(name, text)
        elif name.endswith(TEXT) or Path(name).name in ("Makefile", "run"):
            hits += _prose(name, 1, text)
    return hits


def _prose(file: str, line: int, text: str) -> Iterator[str]:
    plain = _CODE.sub(lambda match: "\n" * match[0].count("\n") or " ", text)
    for match in PROSE.finditer(plain):
        at = line + plain.count("\n", 0, match.start())
        yield f"{file}:{at}: {' '.join(match[0].split())}"


def _python(file: str, text: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield from _prose(file, token.start[0], token.string)
        elif token.type == tokenize.STRING and " " in token.string:
            words = _PLACEHOLDER.sub(" ", token.string) if "{" in token.string else token.string
            yield from _prose(file, token.start[0], words)
    for node in ast.walk(ast.parse(text)):
        line = getattr(node, "lineno", 1)
        documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        docstring = ast.get_docstring(node) if isinstance(node, documented) else None
        if match := OPENING.match(docstring or ""):
            yield f"{file}:{line}: {match[0]} begins a docstring"
        name = _defined_name(node)
        parts = {part.lower() for part in re.findall(r"[a-z]+|[A-Z][a-z]*", name)}
        if name in NAMES or parts & PARTS:
            yield f"{file}:{line}: {name} is a name"


def _defined_name(node: ast.AST) -> str:
    """Return the name that a node defines; empty if it defines none."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            return name
        case ast.arg(arg=name):
            return name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
    return ""


def main(arguments: Sequence[str]) -> int:
    """Print the hits of some files, or of all, and their number."""
    hits = check(arguments or tracked_files())
    for hit in hits:
        print(hit)
    print(f"{len(hits)} hits")
    return 1 if hits else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
