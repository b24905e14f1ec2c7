"""The generated parts of the documents: keys of a spec, help of the commands, workloads.

`make docs` writes each part below the mark in its page.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from orchestrator.cli.main import main
from orchestrator.diagnostics.workload_catalogue import full_catalogue, to_document
from orchestrator.report.document import Section, Table
from orchestrator.report.formats.text import section_markdown
from orchestrator.spec import json_schema

MARK = "<!-- Below: written by `make docs`. -->\n"

Json = Mapping[str, Any]

_BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
_KINDS = {"integer": "whole number", "boolean": "true or false", "string": "text", "null": ""}


def generated_parts() -> dict[str, str]:
    """Return the Markdown below the mark of each page, by the name of the page."""
    catalogue = to_document(full_catalogue(()))
    parts = {
        "spec.md": (f"#{section_markdown(section)}" for section in _spec_sections()),
        "commands.md": _command_help(),
        "workloads.md": map(section_markdown, catalogue.sections),
    }
    return {page: "\n\n".join(texts).strip() + "\n" for page, texts in parts.items()}


def _spec_sections() -> Iterator[Section]:
    """Yield a table of keys for the top of a spec and for each of its sections."""
    whole = json_schema.schema()
    yield Section("The whole file", tables=(_keys({**whole, **whole["else"]}),))
    for path, name in _places(whole["properties"], whole["$defs"]):
        yield Section(path, tables=(_keys(_mapping(whole["$defs"][name])),))


def _places(properties: Json, sections: Json, above: str = "") -> Iterator[tuple[str, str]]:
    """Yield the place of each section that properties refer to, and its name in the schema."""
    for key, part in properties.items():
        named = [name for name in sections if f'/{name}"' in json.dumps(part)]
        for name in named:
            yield f"{above}{key}" + (f": {name.lower()}" if len(named) > 1 else ""), name
            inner = _mapping(sections[name])["properties"]
            yield from _places(inner, sections, f"{above}{key}.")


def _mapping(section: Json) -> Json:
    """Return the form of a section that has keys."""
    return next(form for form in section.get("anyOf", [section])[::-1] if "properties" in form)


def _keys(section: Json) -> Table:
    rows = []
    for key, part in section["properties"].items():
        default = part.get("default")
        usual = "–" if default is None else json.dumps(default)
        usual = "required" if key in section.get("required", ()) else usual
        rows.append((key, _values(part), usual, part.get("description", "")))
    return Table(("key", "values", "default", "meaning"), tuple(rows))


def _values(part: Json) -> str:
    """Return the values that a key can have, such as `whole number ≥ 1`."""
    match part:
        case {"$ref": _}:
            return "a section below"
        case {"enum": values}:
            return ", ".join(map(str, values))
        case {"anyOf": forms} | {"oneOf": forms}:
            return " or ".join(filter(None, dict.fromkeys(map(_values, forms))))
        case {"type": "array", "items": list(forms)}:
            return f"list: {', '.join(map(_values, forms))}"
        case {"type": "array", "items": form}:
            return f"list: {_values(form)}"
    kind = str(part.get("type", "mapping")).replace("object", "mapping")
    bounds = (f" {sign} {part[key]}" for key, sign in _BOUNDS.items() if key in part)
    return _KINDS.get(kind, kind) + ",".join(bounds)


def _command_help() -> Iterator[str]:
    for name, command in main.commands.items():
        context = click.Context(command, info_name=f"rnnsweep {name}", terminal_width=92)
        yield f"### {name}\n\n```text\n{command.get_help(context)}\n```"


if __name__ == "__main__":
    for page, text in generated_parts().items():
        file = Path(sys.argv[1]) / page
        head, mark, _ = file.read_text(encoding="utf-8").partition(MARK)
        file.write_text(f"{head}{mark}\n{text}", encoding="utf-8")
