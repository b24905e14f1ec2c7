"""The files of Ray's cluster launcher, checked as Ray reads them."""

from __future__ import annotations

import copy
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from ray.autoscaler._private.util import prepare_config, validate_config
from ray.autoscaler.v2.instance_manager.config import AutoscalingConfig

from tests.infra.documents import INFRA, ROOT, document, locked
from tests.infra.shell import check

AWS = INFRA / "cloud/aws.yaml"
MACHINES = INFRA / "machines/cluster.yaml"
LAUNCHERS = [AWS, MACHINES]


def with_defaults(path: Path) -> dict[str, Any]:
    """Return the file with Ray's defaults, as `ray up` uses it."""
    logging.getLogger("ray").setLevel(logging.WARNING)
    return dict(prepare_config(copy.deepcopy(document(path))))


def start_commands(config: dict[str, Any]) -> dict[str, str]:
    """Return the commands that start Ray on the head and on a worker."""
    return {kind: " ".join(config[f"{kind}_start_ray_commands"]) for kind in ("head", "worker")}


@pytest.mark.parametrize("path", LAUNCHERS, ids=lambda path: path.parent.name)
class TestLauncher:
    def test_ray_accepts_the_file(self, path: Path) -> None:
        validate_config(with_defaults(path))

    def test_the_head_runs_no_trials_and_shows_its_dashboard_to_nobody(self, path: Path) -> None:
        commands = start_commands(with_defaults(path))
        assert "--num-cpus=0" in commands["head"]
        assert "--dashboard-host" not in commands["head"]
        assert all("--object-store-memory=134217728" in command for command in commands.values())

    def test_holds_no_secret(self, path: Path) -> None:
        assert not re.search(r"(?i)(auth_token|password|secret)\w* *[:=] *\w", path.read_text())

    def test_commands_pass_shellcheck(self, path: Path) -> None:
        config = with_defaults(path)
        commands = [
            command for key in config if key.endswith("_commands") for command in config[key]
        ]
        assert commands
        check("\n".join(["#!/usr/bin/env bash", *commands]))


class TestMachines:
    def test_every_machine_joins(self) -> None:
        config = with_defaults(MACHINES)
        (kind,) = config["available_node_types"].values()
        assert kind["min_workers"] == len(config["provider"]["worker_ips"])

    def test_the_token_is_required_wherever_ray_starts(self) -> None:
        config = with_defaults(MACHINES)
        assert "~/.ray/auth_token" in config["file_mounts"]
        for command in start_commands(config).values():
            assert "export RAY_AUTH_MODE=token" in command

    def test_copied_files_exist_and_are_installed(self) -> None:
        config = document(MACHINES)
        mounted = {
            Path(there).name
            for there, here in config["file_mounts"].items()
            if not here.startswith("~") and (ROOT / here).is_file()
        }
        install = " ".join(config["setup_commands"])
        assert mounted == set(re.findall(r"-[rc] (\S+)", install))


class TestAws:
    def test_all_nodes_but_the_head_start_from_zero(self) -> None:
        config = with_defaults(AWS)
        kinds = config["available_node_types"]
        assert kinds.pop(config["head_node_type"])["max_workers"] == 0
        assert len(kinds) == 3
        for name, kind in kinds.items():
            assert kind["min_workers"] == 0, name
            assert 0 < kind["max_workers"] <= config["max_workers"], name

    def test_the_autoscaler_starts_each_kind_with_its_image_and_labels(self) -> None:
        config = AutoscalingConfig(configs=with_defaults(AWS), skip_content_hash=True)
        images = {
            kind: config.get_docker_config(kind)["image"].rpartition(":")[2]
            for kind in with_defaults(AWS)["available_node_types"]
        }
        assert images == {"head": "cpu", "cpu": "cpu", "gpu-t4": "gpu", "gpu-l4": "gpu"}
        kinds = config.get_node_type_configs()
        assert kinds["cpu"].labels == {"ray.io/node-group": "cpu"}
        assert kinds["gpu-l4"].labels == {"ray.io/accelerator-type": "L4"}
        assert kinds["gpu-l4"].resources["GPU"] == 1
        assert kinds["head"].resources["CPU"] == 0

    def test_the_second_autoscaler_is_used_because_it_reads_labels(self) -> None:
        assert "export RAY_enable_autoscaler_v2=1;" in start_commands(with_defaults(AWS))["head"]

    def test_the_token_is_in_a_mounted_folder(self) -> None:
        config = with_defaults(AWS)
        assert config["file_mounts"]["~/.ray"] == "~/.rnnsweep-cluster/ray"
        readme = (AWS.parent / "README.md").read_text()
        for folder in config["file_mounts"].values():
            assert folder in readme
        assert f'"ray[default]=={locked("ray")}"' in readme
