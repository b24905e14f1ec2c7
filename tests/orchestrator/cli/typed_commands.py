"""Commands as they are typed, in this process."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import orchestrator.cli
from orchestrator.cli.main import main

SCHEMA = Path(orchestrator.cli.__file__).with_name("progress.schema.json")
Run = Callable[..., tuple[int, str, str]]


def type_command(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    out, err = capfd.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, out, err


def read_events(lines: str) -> list[dict[str, Any]]:
    """Return the events of `--json-progress`, each of which is valid by its schema."""
    read: list[dict[str, Any]] = list(map(json.loads, lines.splitlines()))
    schema = {"type": "array", "items": json.loads(SCHEMA.read_text())}
    jsonschema.validate(read, schema, jsonschema.Draft202012Validator)
    return read
