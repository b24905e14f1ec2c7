"""The compose file: valid, consistent, and refused without its secrets."""

import json
import re
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
import yaml

from tests.infra.files import INFRA

COMPOSE = INFRA / "compose"
TEXT = (COMPOSE / "compose.yaml").read_text()
EXAMPLE = (COMPOSE / ".env.example").read_text()
REQUIRED = set(re.findall(r"\$\{(\w+):\?", TEXT))
OPTIONAL = dict(re.findall(r"\$\{(\w+):-([^}]*)\}", TEXT))


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    text = re.sub(r"(?<!\$)\$\{\w+:-([^}]*)\}", r"\1", TEXT)
    text = re.sub(r"(?<!\$)\$\{(\w+)(?::\?[^}]*)?\}", r"the-\1", text)
    assert set(re.findall(r"the-(\w+)", text)) == REQUIRED
    return dict(yaml.safe_load(text.replace("$$", "$")))


@pytest.fixture
def services(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return dict(compose["services"])


def test_the_file_matches_composes_schema(compose: dict[str, Any]) -> None:
    vendored = files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json"
    schema = json.loads(vendored.read_text())
    jsonschema.validators.validator_for(schema)(schema).validate(compose)


def test_the_example_lists_required_variables_empty_and_optional_ones_with_defaults() -> None:
    assert dict(re.findall(r"^(\w+)=(.*)$", EXAMPLE, re.MULTILINE)) == dict.fromkeys(REQUIRED, "")
    assert dict(re.findall(r"^#(\w+)=(.*)$", EXAMPLE, re.MULTILINE)) == OPTIONAL


def test_every_ray_node_has_token_and_certificate(services: dict[str, dict[str, Any]]) -> None:
    environments = {
        name: service["environment"]
        for name, service in services.items()
        if str(service.get("command")).startswith("ray start")
        and service["entrypoint"] == ["certificates.sh", "/ca", "/tmp/tls", "head", "--"]
        and "ca:/ca:ro" in service["volumes"]
    }
    assert set(environments) == {"head", "cpu", "gpu"}
    for environment in environments.values():
        assert environment["RAY_AUTH_MODE"] == "token"
        assert environment["RAY_AUTH_TOKEN"] == "the-RAY_AUTH_TOKEN"
        assert environment["RAY_USE_TLS"] == "1"
        paths = [value for name, value in environment.items() if name.startswith("RAY_TLS_")]
        assert sorted(paths) == [f"/tmp/tls/{name}" for name in ("ca.crt", "node.crt", "node.key")]


def test_ports_are_published_to_this_machine_only(services: dict[str, dict[str, Any]]) -> None:
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
