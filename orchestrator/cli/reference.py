"""What is generated: parts of the documents, and the JSON Schemas of a spec and of a report.

`make docs` writes each part below the mark in its page, and each schema into its file. The parts
are the keys of a spec, the help of the commands, the workloads, and the names in MLflow.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from orchestrator.cli.main import main
from orchestrator.core.trial_columns import COLUMNS
from orchestrator.diagnostics.workload_catalogue import catalogue_document
from orchestrator.report.document import Document, Section, Table
from orchestrator.report.formats.json_schema import REPORT_SCHEMA_FILE, report_schema_text
from orchestrator.report.formats.text import to_markdown
from orchestrator.sampling import CLASS_PATTERN
from orchestrator.spec import spec_schema
from orchestrator.spec.chosen_kinds import USER_CLASS
from orchestrator.spec.fields import Json
from workloads.metrics import ANY_WORKLOAD, METRICS, Metric

MARK = "<!-- Below: written by `make docs`. -->\n"

_BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
_IN_MLFLOW = {
    "param": "param",
    "tag": "tag",
    "attribute": "attribute",
    "record": "–",
}
_ALL_TRIALS = ("full", "slices", "predictions", "pruned")
_KINDS = {"integer": "whole number", "boolean": "true or false", "string": "text", "null": ""}


def generated_parts() -> dict[str, str]:
    """Return the Markdown below the mark of each page, by the name of the page."""
    spec = spec_schema.spec_schema()
    sections = _spec_sections("The whole file", {**spec, **spec["else"]}, spec["$defs"])
    parts = {
        "spec.md": to_markdown(Document("Every key", (Section(""), *sections))),
        "commands.md": "\n\n".join(["# Help of each command", *_command_help()]) + "\n",
        "workloads.md": to_markdown(catalogue_document()),
        "mlflow.md": to_markdown(_names_of_trials()),
    }
    return {page: re.sub("^#", "##", text, flags=re.MULTILINE) for page, text in parts.items()}


def _spec_sections(title: str, section: Json, others: Json, above: str = "") -> Iterator[Section]:
    """Yield a table of the keys of a section of a spec, and a table for each section in it."""
    yield Section(title, tables=(_keys(section),))
    for key, part in section["properties"].items():
        names = [name for name in others if f'/{name}"' in json.dumps(part)]
        for name in names:
            forms = others[name].get("anyOf", [others[name]])
            inner = next(form for form in reversed(forms) if "properties" in form)
            inner_title = above + key + (f": {_word(name, inner)}" if len(names) > 1 else "")
            yield from _spec_sections(inner_title, inner, others, f"{above}{key}.")


def _word(name: str, section: Json) -> str:
    """Return the word for one of a key's sections: the name of a kind, if it is one."""
    kind = section["properties"].get("name", {})
    return str(kind.get("const", USER_CLASS if "pattern" in kind else name.lower()))


def _keys(section: Json) -> Table:
    rows = []
    for key, part in section["properties"].items():
        default = "–" if part.get("default") is None else json.dumps(part["default"])
        default = "required" if key in section.get("required", ()) else default
        rows.append((key, _values(part), default, part.get("description", "")))
    return Table(("key", "values", "default", "meaning"), tuple(rows))


def _values(part: Json) -> str:
    """Return the values that a key can have, such as `whole number ≥ 1`."""
    match part:
        case {"$ref": _}:
            return "a section below"
        case {"const": value}:
            return str(value)
        case {"pattern": pattern} if pattern == CLASS_PATTERN:
            return USER_CLASS
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


def _names_of_trials() -> Document:
    """Return the tables of the columns and the metrics of a trial."""
    columns = [(column.name, _IN_MLFLOW[column.stored], column.description) for column in COLUMNS]
    metrics = [(metric.name, _trials_with(metric), metric.description) for metric in METRICS]
    table_of_columns = Table(("column", "in MLflow", "meaning"), tuple(columns))
    table_of_metrics = Table(("metric", "in trials", "meaning"), tuple(metrics))
    return Document(
        "The names of a trial",
        (
            Section(""),
            Section("Columns", tables=(table_of_columns,)),
            Section("Metrics", tables=(table_of_metrics,)),
        ),
    )


def _trials_with(metric: Metric) -> str:
    """Return the trials that have the metric, such as `full, each epoch (training)`."""
    is_in_all = metric.measured_in == _ALL_TRIALS
    of_workload = "" if metric.workload == ANY_WORKLOAD else f" ({metric.workload})"
    return f"{'all' if is_in_all else ', '.join(metric.measured_in)}{of_workload}"


def _command_help() -> Iterator[str]:
    for name, command in main.commands.items():
        group = click.Context(main, None, "rnnsweep", help_option_names=["-h", "--help"])
        context = click.Context(command, group, name, terminal_width=92)
        yield f"## {name}\n\n```text\n{command.get_help(context)}\n```"


def generated_schemas() -> dict[Path, str]:
    """Return the text of each JSON Schema that is made from the code, by its file."""
    return {
        spec_schema.SCHEMA_FILE: spec_schema.spec_schema_text(),
        REPORT_SCHEMA_FILE: report_schema_text(),
    }


def write_generated(docs: Path) -> None:
    """Write the generated parts of the pages in a folder, and the JSON Schemas."""
    for page, text in generated_parts().items():
        file = docs / page
        head, mark, _ = file.read_text(encoding="utf-8").partition(MARK)
        file.write_text(f"{head}{mark}\n{text}", encoding="utf-8")
    for file, text in generated_schemas().items():
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_generated(Path(sys.argv[1]))
