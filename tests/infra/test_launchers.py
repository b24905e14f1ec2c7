"""The files of Ray's cluster launcher, as Ray itself reads them."""

from __future__ import annotations

import copy
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from ray.autoscaler._private.util import prepare_config, validate_config
from ray.autoscaler.v2.instance_manager.config import AutoscalingConfig
from ray.util.accelerators import accelerators

from tests.infra.documents import INFRA, ROOT, document, locked
from tests.infra.shell import check

AWS = INFRA / "cloud/aws.yaml"
MACHINES = INFRA / "machines/cluster.yaml"
LAUNCHERS = [AWS, MACHINES]


def prepared(path: Path) -> dict[str, Any]:
    """The file with Ray's defaults, as `ray up` goes on with it."""
    logging.getLogger("ray").setLevel(logging.WARNING)
    return dict(prepare_config(copy.deepcopy(document(path))))


def starts(config: dict[str, Any]) -> dict[str, str]:
    """The command that starts Ray on the head, and that on a worker."""
    return {kind: " ".join(config[f"{kind}_start_ray_commands"]) for kind in ("head", "worker")}


@pytest.mark.parametrize("path", LAUNCHERS, ids=lambda path: path.parent.name)
class TestLauncher:
    def test_ray_takes_it(self, path: Path) -> None:
        validate_config(prepared(path))

    def test_the_head_takes_no_trials(self, path: Path) -> None:
        assert "--num-cpus=0" in starts(prepared(path))["head"]

    def test_the_object_store_leaves_the_memory_to_trainers(self, path: Path) -> None:
        for command in starts(prepared(path)).values():
            assert "--object-store-memory=134217728" in command

    def test_the_dashboard_is_not_opened_to_the_network(self, path: Path) -> None:
        assert "--dashboard-host" not in starts(prepared(path))["head"]

    def test_no_secret_stands_in_it(self, path: Path) -> None:
        assert not re.search(r"(?i)(auth_token|password|secret)\w* *[:=] *\w", path.read_text())

    def test_commands_are_good_shell(self, path: Path) -> None:
        config = prepared(path)
        commands = [
            command for key in config if key.endswith("_commands") for command in config[key]
        ]
        assert commands
        check("\n".join(["#!/usr/bin/env bash", *commands]))


class TestMachines:
    def test_every_machine_joins(self) -> None:
        config = prepared(MACHINES)
        (kind,) = config["available_node_types"].values()
        assert kind["min_workers"] == len(config["provider"]["worker_ips"])

    def test_the_token_is_asked_for_wherever_ray_starts(self) -> None:
        config = prepared(MACHINES)
        assert "~/.ray/auth_token" in config["file_mounts"]
        for command in starts(config).values():
            assert "export RAY_AUTH_MODE=token" in command

    def test_what_is_copied_exists_and_is_what_is_installed(self) -> None:
        config = document(MACHINES)
        mounted = {
            Path(there).name
            for there, here in config["file_mounts"].items()
            if not here.startswith("~") and (ROOT / here).is_file()
        }
        install = " ".join(config["setup_commands"])
        assert mounted == set(re.findall(r"-[rc] (\S+)", install))


class TestAws:
    def test_everything_but_the_head_starts_from_zero(self) -> None:
        config = prepared(AWS)
        kinds = config["available_node_types"]
        assert kinds.pop(config["head_node_type"])["max_workers"] == 0
        assert len(kinds) == 3
        for name, kind in kinds.items():
            assert kind["min_workers"] == 0, name
            assert 0 < kind["max_workers"] <= config["max_workers"], name

    def test_two_kinds_of_gpus_are_named_as_ray_names_them(self) -> None:
        kinds = prepared(AWS)["available_node_types"].values()
        named = [
            kind["labels"]["ray.io/accelerator-type"]
            for kind in kinds
            if kind["resources"].get("GPU")
        ]
        assert len(set(named)) == len(named) == 2
        known = {value for name, value in vars(accelerators).items() if name.isupper()}
        assert set(named) <= known

    def test_the_autoscaler_starts_each_kind_with_its_image_and_labels(self) -> None:
        seen = AutoscalingConfig(configs=prepared(AWS), skip_content_hash=True)
        image = {
            kind: seen.get_docker_config(kind)["image"].rpartition(":")[2]
            for kind in prepared(AWS)["available_node_types"]
        }
        assert image == {"head": "cpu", "cpu": "cpu", "gpu-t4": "gpu", "gpu-l4": "gpu"}
        kinds = seen.get_node_type_configs()
        assert kinds["cpu"].labels == {"ray.io/node-group": "cpu"}
        assert kinds["gpu-l4"].labels == {"ray.io/accelerator-type": "L4"}
        assert kinds["gpu-l4"].resources["GPU"] == 1
        assert kinds["head"].resources["CPU"] == 0

    def test_labels_are_read_by_the_second_autoscaler_only(self) -> None:
        assert "export RAY_enable_autoscaler_v2=1;" in starts(prepared(AWS))["head"]

    def test_the_token_comes_with_the_image_and_a_folder(self) -> None:
        config = prepared(AWS)
        assert config["file_mounts"]["~/.ray"] == "~/.rnnsweep-cluster/ray"
        readme = (AWS.parent / "README.md").read_text()
        for folder in config["file_mounts"].values():
            assert folder in readme
        assert f'"ray[default]=={locked("ray")}"' in readme
