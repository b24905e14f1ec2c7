"""YAML files and `--set` overrides to plain data, with the place of every value.

This module knows nothing of sweeps; others of `orchestrator.spec` check the data. Scalars are
read as YAML 1.2 does where PyYAML's 1.1 surprises (`1e-4` is a number; `010` and `1:30` are text,
and so refused where a number is expected); `yes`, `no`, `on` and `off` stay booleans.
"""

from __future__ import annotations

import contextlib
import difflib
import math
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

import yaml

from orchestrator.spec.errors import (
    Finding,
    Path,
    Place,
    Problem,
    SpecError,
    cut,
    key_text,
    shown,
)

MAX_VALUES = 10_000
"""The largest number of values: aliases may multiply a small file into billions."""
MAX_DEPTH = 32
MAX_CHARACTERS = 1_000_000


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """Plain data, the place of each of its values, and the errors of its notation."""

    source: str
    data: Any
    places: Mapping[Path, Place]
    findings: tuple[Finding, ...] = ()

    def place(self, path: Path) -> Place:
        """Return the place of `path`, or of its nearest parent that is written."""
        written = self.written(path)
        while written and written not in self.places:
            written = written[:-1]
        return self.places.get(written, Place(self.source, 0))

    def written(self, path: Path) -> Path:
        """Return `path` as this document spells it.

        A short form has no node for the key that it leaves out: `direction` under
        `step_ms: minimize`, or `choices` under `units: [32, 64]`.
        """
        node, written = self.data, list[str | int]()
        for part in path:
            if isinstance(node, dict):
                written.append(part)
                if part not in node:
                    break
                node = node[part]
            elif isinstance(node, list):
                if isinstance(part, int) and part < len(node):
                    written.append(part)
                    node = node[part]
            else:
                break
        return tuple(written)

    def problems(self, findings: Iterable[Finding]) -> list[Problem]:
        """Return findings as problems in the order of the file, the first of each key only."""
        first: dict[tuple[str, str], tuple[Place, Finding]] = {}
        for finding in (*self.findings, *findings):
            path = finding.path if finding.place else self.written(finding.path)
            place = finding.place or self.place(path)
            first.setdefault((place.text, key_text(path)), (place, finding))
        return [
            Problem(text, key, one.expected, one.received, one.hint)
            for (text, key), (_, one) in sorted(first.items(), key=lambda item: item[1][0].line)
        ]


ShortForms: TypeAlias = Mapping[str, tuple[str, tuple[str, ...]]]
"""Short forms: for each key the key inside that a word sets, and the words that it may be."""


def read_text(path: pathlib.Path, kind: str) -> str:
    """Return the text of a file; `kind` describes it in messages (`a spec file`).

    Raises:
        SpecError: it cannot be read, or is not text in UTF-8.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(4 * MAX_CHARACTERS + 1)
        # A file that is too long is refused for its length, not for a character cut in two.
        too_long = len(raw) > 4 * MAX_CHARACTERS
        return raw.decode("utf-8-sig", errors="replace" if too_long else "strict")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        received = f"the byte 0x{raw[error.start]:02x}"
        problem = Problem(f"{path}:{line}", "", "text in UTF-8", received, "save it as UTF-8")
    except FileNotFoundError:
        others = {other.stem: other for other in path.parent.glob("*.y*ml")}
        near = difflib.get_close_matches(path.stem, others, n=1)
        hint = f"did you mean {others[near[0]]}?" if near else ""
        problem = Problem(str(path), "", kind, "no such file", hint)
    except OSError as error:
        received = (error.strerror or str(error)).lower()
        problem = Problem(str(path), "", f"{kind} that can be read", received)
    except ValueError as error:  # a path with a null byte
        problem = Problem(repr(str(path)), "", kind, str(error))
    raise SpecError(str(path), [problem])


def read(
    text: str,
    *,
    source: str,
    overrides: Sequence[str] = (),
    example: str = "settings.epochs=2",
    short_forms: ShortForms = MappingProxyType({}),
) -> YamlDocument:
    """Read one YAML document and set the overrides (`dotted.key=YAML`, as the example) in it.

    An override inside of a short form (`measure.interval=0.02` over `measure: timing`) keeps the
    meaning of the word.

    Raises:
        SpecError: the text is not one YAML mapping. Lesser errors (a key written twice, an
            override without `=`) are among the findings of the document instead.
    """
    if len(text) > MAX_CHARACTERS:
        size = f"{len(text):,} characters"
        raise SpecError(source, [Problem(source, "", "at most 1,000,000 characters", size)])
    reader = _Reader(lambda line: Place(f"{source}:{line}", line), source=source)
    data = reader.read(text)
    if not isinstance(data, dict):
        received = "an empty file" if data is None else shown(data)
        expected = "a mapping (name: …, workload: …)"
        raise SpecError(source, [Problem(f"{source}:1", "", expected, received)])
    for override in overrides:
        _set(override, data, reader, example, short_forms)
    return YamlDocument(source, data, reader.places, tuple(reader.findings))


def _set(
    override: str,
    data: dict[str, Any],
    reader: _Reader,
    example: str,
    short_forms: ShortForms,
) -> None:
    """Set one `KEY=VALUE` in `data`, with its places; errors become findings."""
    typed = override if override.isprintable() else ascii(override)
    place = Place(f"--set {cut(typed)}")
    key, equals, text = override.partition("=")
    path = tuple(key.strip().split("."))
    if not equals or not all(path):
        expected = f"KEY=VALUE, such as {example}"
        reader.findings.append(Finding((), expected, shown(override), place=place))
        return
    inner = _Reader(lambda _: place, source=reader.source)
    try:
        value = inner.read(text, at=path)
    except SpecError as error:
        problem = error.problems[0]
        finding = Finding(path, problem.expected, problem.received, problem.hint, place)
        reader.findings.append(finding)
        return
    parent = data
    for depth, part in enumerate(path[:-1], start=1):
        reader.places.setdefault(path[:depth], place)
        child = parent.setdefault(part, {})
        if depth == 1 and child in short_forms.get(part, ("", ()))[1]:
            inside = short_forms[part][0]
            child = parent[part] = {inside: child} if inside else {}
        if not isinstance(child, dict):
            expected = f"a mapping at {key_text(path[:depth])} to set {path[depth]!r} in"
            hint = f"replace the whole of it: --set {key_text(path[:depth])}=…"
            reader.findings.append(Finding(path, expected, shown(child), hint, place))
            return
        parent = child
    parent[path[-1]] = value
    # The override replaces the value, and so the findings about it.
    for old in [old for old in reader.places if old[: len(path)] == path]:
        del reader.places[old]
    reader.findings[:] = [one for one in reader.findings if one.path[: len(path)] != path]
    reader.places.update(inner.places)
    reader.places[path] = place
    reader.findings.extend(inner.findings)


class _Loader(yaml.SafeLoader):
    """A parser of PyYAML with the scalar rules of this module's docstring."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


_TAG = "tag:yaml.org,2002:"
_BOOLEANS = {"yes": True, "no": False, "true": True, "false": False, "on": True, "off": False}
for _kind, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"(?i:yes|no|true|false|on|off)", list("yYnNtTfFoO")),
    ("int", r"[-+]?(0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|0o[0-7_]+)", list("-+0123456789")),
    (
        "float",
        r"[-+]?(\.[0-9]+|(0|[1-9][0-9_]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?i:inf)|\.(?i:nan)",
        list("-+.0123456789"),
    ),
    ("merge", r"<<", ["<"]),
):
    _Loader.add_implicit_resolver(f"{_TAG}{_kind}", re.compile(f"^(?:{_pattern})$"), _first)


@dataclass(slots=True)
class _Reader:
    """A converter of YAML nodes to plain data that collects places and findings."""

    where: Callable[[int], Place]
    places: dict[Path, Place] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    source: str = "spec"
    values: int = 0

    def read(self, text: str, at: Path = ()) -> Any:
        """Return the one document in `text` as plain data; None if there is none."""
        try:
            node = yaml.compose(text, Loader=_Loader)
            if node is None:
                return None
            self.places[at] = self._place(node)
            return self._value(node, at)
        except yaml.reader.ReaderError as error:
            place = self.where(text.count("\n", 0, error.position) + 1)
            received = f"the character U+{ord(text[error.position]):04X}"
            raise self._refused(place, "printable text", received) from error
        except yaml.MarkedYAMLError as error:
            raise self._syntax(error) from error
        except RecursionError as error:
            raise self._refused(self.where(1), f"at most {MAX_DEPTH} levels", "more") from error

    def _syntax(self, error: yaml.MarkedYAMLError) -> SpecError:
        mark = error.problem_mark or error.context_mark
        place = self.where(mark.line + 1 if mark else 1)
        if mark and place.line != math.inf:  # an override has no lines to count columns in
            place = Place(f"{place.text}:{mark.column + 1}", place.line)
        message = ", ".join(filter(None, (error.problem, error.context)))
        if "'\\t'" in message:
            return self._refused(place, "spaces", "a tab", "YAML indents with spaces only")
        return self._refused(place, "valid YAML", f"invalid YAML: {message}")

    def _refused(self, place: Place, expected: str, received: str, hint: str = "") -> SpecError:
        return SpecError(self.source, [Problem(place.text, "", expected, received, hint)])

    def _place(self, node: yaml.Node) -> Place:
        return self.where(node.start_mark.line + 1)

    def _value(self, node: yaml.Node, path: Path) -> Any:
        self.values += 1
        if self.values > MAX_VALUES or len(path) > MAX_DEPTH:
            expected = f"at most {MAX_VALUES:,} values, {MAX_DEPTH} levels deep"
            hint = "aliases (*name) repeat all that they name"
            raise self._refused(self._place(node), expected, "more", hint)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            items = []
            for index, item in enumerate(node.value):
                self.places[(*path, index)] = self._place(item)
                items.append(self._value(item, (*path, index)))
            return items
        return self._scalar(node, path)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        merges = [value for key, value in node.value if key.tag == f"{_TAG}merge"]
        result = {}
        for merged in merges:
            result.update(self._merged(merged, path))
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            if key_node.tag == f"{_TAG}merge":
                continue
            place = self._place(key_node)
            key = self._key(key_node, path)
            if key is None:
                continue
            inner = (*path, key)
            if key in lines:
                received = f"{shown(key)} again (first on line {lines[key]})"
                self.findings.append(Finding(inner, "each key once", received, place=place))
                continue
            lines[key] = key_node.start_mark.line + 1
            self.places[inner] = place
            result[key] = self._value(value_node, inner)
        return result

    def _merged(self, node: yaml.Node, path: Path) -> dict[str, Any]:
        """Return the mapping of `<<: *name` or `<<: [*one, *other]`; earlier names win."""
        result: dict[str, Any] = {}
        for part in reversed(node.value) if isinstance(node, yaml.SequenceNode) else [node]:
            if isinstance(part, yaml.MappingNode):
                result.update(self._value(part, path))
            else:
                at, received = (*path, "<<"), shown(self._value(part, (*path, "<<")))
                self.findings.append(
                    Finding(at, "a mapping to merge", received, place=self._place(part))
                )
        return result

    def _key(self, node: yaml.Node, path: Path) -> str | None:
        written, received, hint = "?", "a list or mapping", ""
        if isinstance(node, yaml.ScalarNode):
            written = str(node.value)
            received = shown(written).removesuffix(" (text)")
            with contextlib.suppress(KeyError, ValueError):
                key = _plain(node.tag, written)
                if isinstance(key, str):
                    return key
                hint = f"put it in quotes: {received}"
        finding = Finding((*path, written), "text as a key", received, hint, self._place(node))
        self.findings.append(finding)
        return None

    def _scalar(self, node: yaml.Node, path: Path) -> Any:
        text = str(node.value)
        try:
            value = _plain(node.tag, text)
        except (KeyError, ValueError):
            expected = "a plain value (text, a number, true, false or null)"
            received = f"{cut(text)!r} tagged {node.tag.replace(_TAG, '!!')}"
            self.findings.append(Finding(path, expected, received))
            return None
        if isinstance(value, float) and not math.isfinite(value):
            self.findings.append(Finding(path, "a finite number", cut(text)))
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            self.findings.append(Finding(path, "a whole number of at most 64 bits", cut(text)))
            return 0  # spares the checks numbers that a float cannot hold
        return value


def _plain(tag: str, text: str) -> Any:
    match tag.removeprefix(_TAG):
        case "null":
            return None
        case "bool":
            return _BOOLEANS[text.lower()]
        case "int":
            return int(text.replace("_", "")[:64], 0)  # enough digits to see that it is too large
        case "float":
            plain = text.lower().replace("_", "")
            return float(plain.replace(".inf", "inf").replace(".nan", "nan"))
        case "str":
            text.encode()  # "\\ud800" is a lone half of a character, which no store can keep
            return text
    raise KeyError(tag)
