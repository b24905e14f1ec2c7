"""The compose file: valid, consistent, and refused without its secrets."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.infra.documents import INFRA, ROOT

COMPOSE = INFRA / "compose"
TEXT = (COMPOSE / "compose.yaml").read_text()
EXAMPLE = (COMPOSE / ".env.example").read_text()

REQUIRED = set(re.findall(r"\$\{(\w+):\?", TEXT))
OPTIONAL = dict(re.findall(r"\$\{(\w+):-([^}]*)\}", TEXT))


def interpolated(text: str, environ: dict[str, str]) -> str:
    """Replace variables as Compose does."""
    text = re.sub(r"(?<!\$)\$\{(\w+):-([^}]*)\}", lambda m: environ.get(m[1]) or m[2], text)
    text = re.sub(r"(?<!\$)\$\{(\w+)(?::\?[^}]*)?\}", lambda m: environ[m[1]], text)
    return text.replace("$$", "$")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded = yaml.safe_load(interpolated(TEXT, dict.fromkeys(REQUIRED, "secret")))
    assert isinstance(loaded, dict)
    return loaded


def services(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return dict(compose["services"])


def test_the_file_matches_composes_schema(compose: dict[str, Any]) -> None:
    vendored = files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json"
    schema = json.loads(vendored.read_text())
    jsonschema.validators.validator_for(schema)(schema).validate(compose)


def test_the_example_lists_required_variables_empty_and_optional_ones_with_defaults() -> None:
    filled_in = dict(re.findall(r"^(\w+)=(.*)$", EXAMPLE, re.MULTILINE))
    assert filled_in == dict.fromkeys(REQUIRED, "")
    commented = dict(re.findall(r"^#(\w+)=(.*)$", EXAMPLE, re.MULTILINE))
    assert commented == OPTIONAL


def test_secrets_come_from_the_environment_only(compose: dict[str, Any]) -> None:
    for name, service in services(compose).items():
        for variable, value in service.get("environment", {}).items():
            if re.search(r"TOKEN|PASSWORD|SECRET", variable):
                assert value == "secret", f"{name}: {variable} is not from .env"


def test_every_ray_node_has_the_token(compose: dict[str, Any]) -> None:
    nodes = {
        name: service
        for name, service in services(compose).items()
        if str(service.get("command")).startswith("ray start")
    }
    assert set(nodes) == {"head", "cpu", "gpu"}
    for name, node in nodes.items():
        assert node["environment"]["RAY_AUTH_MODE"] == "token", name
        assert "RAY_AUTH_TOKEN" in node["environment"], name


def test_every_reference_exists(compose: dict[str, Any]) -> None:
    all_services = services(compose)
    for name, service in all_services.items():
        for other in service.get("depends_on", {}):
            assert other in all_services, f"{name} depends on {other}"
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            if source.startswith("."):
                assert (COMPOSE / source).is_file(), source
            else:
                assert source in compose["volumes"], source
        if build := service.get("build"):
            assert (COMPOSE / build["context"]).resolve() == ROOT
            dockerfile = (ROOT / build["dockerfile"]).read_text()
            if target := build.get("target"):
                assert re.search(rf"^FROM \S+ AS {target}$", dockerfile, re.MULTILINE)


def test_services_address_each_other_by_name(compose: dict[str, Any]) -> None:
    all_services = services(compose)
    hosts = set()
    for service in all_services.values():
        texts = [*service.get("environment", {}).values(), service.get("command", "")]
        hosts |= set(re.findall(r"http://([\w.-]+):\d+", " ".join(map(str, texts))))
        hosts |= set(re.findall(r"--address=([\w.-]+):\d+", str(texts)))
        hosts |= {service["environment"]["PGHOST"]} if "PGHOST" in str(service) else set()
    assert hosts == {"head", "mlflow", "objects", "postgres"}
    assert hosts <= set(all_services)


def test_mlflow_allows_the_host_names_in_use(compose: dict[str, Any]) -> None:
    all_services = services(compose)
    allowed = all_services["mlflow"]["environment"]["MLFLOW_SERVER_ALLOWED_HOSTS"].split(",")
    assert (
        all_services["head"]["environment"]["MLFLOW_TRACKING_URI"].removeprefix("http://")
        in allowed
    )
    assert "localhost:5000" in allowed
    assert "*" not in allowed


def test_ports_are_published_to_this_machine_only(compose: dict[str, Any]) -> None:
    for name, service in services(compose).items():
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), f"{name} publishes {port}"


@pytest.mark.full
def test_compose_accepts_the_file_and_refuses_it_without_secrets(tmp_path: Path) -> None:
    docker = shutil.which("docker")
    if (
        docker is None
        or subprocess.run(
            [docker, "compose", "version"], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("docker compose is not installed here")
    filled_in = tmp_path / "filled-in"
    filled_in.write_text(re.sub(r"^(\w+)=$", r"\1=secret", EXAMPLE, flags=re.MULTILINE))
    for env, code in ((filled_in, 0), (COMPOSE / ".env.example", 1)):
        arguments = ["compose", "--env-file", str(env), "--profile", "gpu", "config", "--quiet"]
        environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        done = subprocess.run(
            [docker, *arguments],
            cwd=COMPOSE,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert bool(done.returncode) == bool(code), done.stderr
