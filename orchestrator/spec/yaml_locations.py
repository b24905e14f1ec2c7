"""YAML files and `--set` overrides to plain data, with the location of every value.

This module knows nothing of sweeps; others of `orchestrator.spec` check the data. Scalars are
read as YAML 1.2 does where PyYAML's 1.1 surprises (`1e-4` is a number; `010` and `1:30` are text,
and so refused where a number is expected); `yes`, `no`, `on` and `off` stay booleans.
"""

from __future__ import annotations

import difflib
import math
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NoReturn, TypeAlias

import yaml

from orchestrator.core.caller import as_typed
from orchestrator.spec.spec_errors import (
    Path,
    Problem,
    ProblemAtPath,
    SpecError,
    cut,
    key_text,
    shown_value,
)

MAX_VALUES = 10_000
"""The largest number of values: aliases may multiply a small file into billions."""
MAX_DEPTH = 32
MAX_CHARACTERS = 1_000_000

ShortForms: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Short forms: for each dotted key the words for its mapping, and their meanings."""


@dataclass(frozen=True, slots=True)
class Location:
    """The location of a value, as shown to people, and its line to sort by."""

    text: str
    line: float = math.inf


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """Plain data, and the location of each of its values."""

    source: str
    data: dict[str, Any]
    locations: Mapping[Path, Location]

    def location(self, path: Path) -> Location:
        """Return the location of `path`, or of its nearest parent that is written."""
        while path and path not in self.locations:
            path = path[:-1]
        return self.locations.get(path, Location(self.source, 0))

    def written(self, path: Path) -> Path:
        """Return `path` as this document spells it.

        A short form has no node for the key that it leaves out: `direction` under
        `step_ms: minimize`, `choices` under `units: [32, 64]`, or `settings` above the settings of
        a variant.
        """
        node, written = self.data, list[str | int]()
        for index, part in enumerate(path):
            if isinstance(node, dict):
                if part == "settings" and part not in node and node.keys() & path[index + 1 :]:
                    continue
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

    def refusal(self, findings: Iterable[ProblemAtPath]) -> SpecError:
        """Return an error with findings in the order of the file, the first of each key only."""
        first: dict[Path, ProblemAtPath] = {}
        for finding in findings:
            first.setdefault(self.written(finding.path), finding)
        ordered = sorted(first.items(), key=lambda item: self.location(item[0]).line)
        problems = [
            Problem(
                self.location(path).text,
                key_text(path),
                problem.expected,
                problem.received,
                problem.hint,
            )
            for path, problem in ordered
        ]
        return SpecError(self.source, problems)


def read_spec_text(path: pathlib.Path, names: Iterable[str] = (), named_in: str = "") -> str:
    """Return a UTF-8 file's text, or raise `SpecError`.

    `names` are what could be typed instead of the path of a file; `named_in` is the location, if
    any, that names the file.
    """
    origin = f" (named in {named_in})" if named_in else ""
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
        hint = _files_meant(path, names)
        problem = Problem(str(path), "", "", f"no such file{origin}", hint)
    except (OSError, ValueError) as error:  # a ValueError is a path with a null byte
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        problem = Problem(ascii(str(path))[1:-1], "", "", f"cannot be read: {reason}{origin}")
    raise SpecError(str(path), [problem])


def _files_meant(missing: pathlib.Path, names: Iterable[str]) -> str:
    """Return a hint with the nearest YAML file next to a missing one or in `sweeps/`, or a name."""
    folders = (missing.parent, missing.parent / "sweeps")
    files = [file for folder in folders for file in sorted(folder.glob("*.y*ml"))]
    by_name: dict[str, list[pathlib.Path]] = {}
    for file in (*files, *map(pathlib.Path, names)):
        by_name.setdefault(file.stem, []).append(file)
    near = difflib.get_close_matches(missing.stem, by_name, n=1)
    if near:
        return f"did you mean {' or '.join(map(str, by_name[near[0]]))}?"
    return "rnnsweep run --help lists the sweeps that come with rnnsweep" if names else ""


def parse_yaml(
    text: str,
    *,
    source: str,
    overrides: Sequence[str] = (),
    example: str = "settings.epochs=2",
    short_forms: ShortForms = MappingProxyType({}),
    has_lines: bool = True,
) -> YamlDocument:
    """Read one YAML document and set the overrides (`dotted.key=YAML`, as the example) in it.

    A text that no user wrote, of a mapping in Python, has no lines to name.

    An override inside of a short form (`measure.interval=0.02` over `measure: timing`) keeps the
    meaning of the word. Raise `SpecError` with the first error if the text is not one YAML mapping
    of text to plain values, or an override is no `KEY=VALUE`.
    """
    if len(text) > MAX_CHARACTERS:
        size = f"{len(text):,} characters"
        raise SpecError(source, [Problem(source, "", "at most 1,000,000 characters", size)])
    reader = _Reader(
        source, lambda line: Location(f"{source}:{line}" if has_lines else source, line)
    )
    data = reader.read(text)
    if not isinstance(data, dict):
        received = "an empty file" if data is None else shown_value(data)
        expected = "a mapping (name: …, workload: …)"
        raise SpecError(source, [Problem(f"{source}:1", "", expected, received)])
    for override in overrides:
        _set(override, data, reader, example, short_forms)
    return YamlDocument(source, data, reader.locations)


def _set(
    override: str, data: dict[str, Any], reader: _Reader, example: str, short_forms: ShortForms
) -> None:
    """Set one `KEY=VALUE` in `data`, with its locations."""
    typed = override if override.isprintable() else ascii(override)
    location = Location(as_typed(f"--set {cut(typed)}", f"overrides: {cut(typed)}"))
    inner = _Reader(reader.source, lambda _: location)
    key, equals, text = override.partition("=")
    path = tuple(key.strip().split("."))
    if not equals or not all(path):
        inner.refuse(location, (), f"KEY=VALUE, such as {example}", shown_value(override))
    value = inner.read(text, at=path)
    parent = data
    for depth, part in enumerate(path[:-1], start=1):
        reader.locations.setdefault(path[:depth], location)
        child = parent.setdefault(part, {})
        words = short_forms.get(".".join(path[:depth]), {})
        if isinstance(child, str) and child in words:
            child = parent[part] = dict(words[child])
        if not isinstance(child, dict):
            whole = key_text(path[:depth])
            text = f"{whole} has no key {path[depth]!r}: it is {shown_value(child)}"
            hint = f"replace all of it: {as_typed(f'--set {whole}=…', f'overrides: {whole}=…')}"
            inner.refuse(location, path, "", text, hint)
        parent = child
    parent[path[-1]] = value
    for old in [old for old in reader.locations if old[: len(path)] == path]:
        del reader.locations[old]
    reader.locations.update({**inner.locations, path: location})


class _Loader(yaml.SafeLoader):
    """A parser of PyYAML with the scalar rules of this module's docstring."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


_TAG = "tag:yaml.org,2002:"
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
    """A converter of YAML nodes to plain data that collects locations."""

    source: str
    where: Callable[[int], Location]
    locations: dict[Path, Location] = field(default_factory=dict)
    values: int = 0
    scalars: _Loader = field(default_factory=lambda: _Loader(""))

    def read(self, text: str, at: Path = ()) -> Any:
        """Return the one document in `text` as plain data; None if there is none."""
        try:
            node = _Loader(text).get_single_node()
            if node is None:
                return None
            self.locations[at] = self._location(node)
            return self._value(node, at)
        except yaml.reader.ReaderError as error:
            location = self.where(text.count("\n", 0, error.position) + 1)
            received = f"the character U+{ord(text[error.position]):04X}"
            self.refuse(location, at, "printable text", received)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            location = self.where(mark.line + 1 if mark else 1)
            if mark and location.line != math.inf:  # an override has no lines to count columns in
                location = Location(f"{location.text}:{mark.column + 1}", location.line)
            message = ", ".join(filter(None, (error.problem, error.context)))
            if "'\\t'" in message:
                self.refuse(location, at, "spaces", "a tab", "YAML indents with spaces only")
            self.refuse(location, at, "", f"invalid YAML: {message}")
        except RecursionError:
            self.refuse(self.where(1), at, f"at most {MAX_DEPTH} levels", "more")

    def refuse(
        self, location: Location, path: Path, expected: str, received: str, hint: str = ""
    ) -> NoReturn:
        """Raise the error of a value; see `Problem`."""
        problem = Problem(location.text, key_text(path), expected, received, hint)
        raise SpecError(self.source, [problem]) from None

    def _location(self, node: yaml.Node) -> Location:
        return self.where(node.start_mark.line + 1)

    def _value(self, node: yaml.Node, path: Path) -> Any:
        self.values += 1
        if self.values > MAX_VALUES or len(path) > MAX_DEPTH:
            expected = f"at most {MAX_VALUES:,} values, {MAX_DEPTH} levels deep"
            hint = "an alias (*name) counts as a copy of what it names"
            self.refuse(self._location(node), (), expected, "more", hint)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.locations[(*path, index)] = self._location(item)
            return [self._value(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        """Return a mapping, whose keys are text and different; note the location of each key."""
        result, lines = dict[str, Any](), dict[str, int]()
        for key_node, value_node in node.value:
            if key_node.tag == f"{_TAG}merge":
                result = self._merged(value_node, path) | result
                continue
            location, written = self._location(key_node), str(key_node.value)
            at = (*path, written if isinstance(key_node, yaml.ScalarNode) else "?")
            key = self._value(key_node, at)
            if not isinstance(key, str):
                hint = f"put it in quotes: {written!r}"
                self.refuse(location, at, "text as a key", shown_value(key), hint)
            if key in lines:
                self.refuse(location, (*path, key), "", f"already given on line {lines[key]}")
            lines[key] = key_node.start_mark.line + 1
            self.locations[(*path, key)] = location
            result[key] = self._value(value_node, (*path, key))
        return result

    def _merged(self, node: yaml.Node, path: Path) -> dict[str, Any]:
        """Return the mapping of `<<: *name` or `<<: [*one, *other]`; earlier names win."""
        locations, result = dict(self.locations), dict[str, Any]()
        for part in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if not isinstance(part, yaml.MappingNode):
                received = shown_value(self._value(part, path))
                self.refuse(self._location(part), (*path, "<<"), "a mapping to merge", received)
            result = self._value(part, path) | result
        self.locations.update(locations)  # what is written here is not where the anchor is
        return result

    def _scalar(self, node: yaml.Node, path: Path) -> Any:
        """Return a plain value that every store can keep, or refuse it."""
        text = cut(str(node.value))
        try:
            value = self.scalars.construct_object(node)
            is_plain = value is None or isinstance(value, bool | int | float | str)
            str(value).encode()  # "\\ud800" is a lone half of a character, which no store can keep
        except (KeyError, ValueError, yaml.constructor.ConstructorError):
            is_plain = False
        if not is_plain:
            expected = "a plain value (text, a number of at most 64 bits, true, false or null)"
            received = f"{text!r} tagged {node.tag.replace(_TAG, '!!')}"
            self.refuse(self._location(node), path, expected, received)
        if isinstance(value, float) and not math.isfinite(value):
            self.refuse(self._location(node), path, "a finite number", text)
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            self.refuse(self._location(node), path, "a whole number of at most 64 bits", text)
        return value
