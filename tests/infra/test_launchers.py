"""The files of Ray's cluster launcher as Ray reads them, and the nodes that it starts."""

import copy
import logging
from pathlib import Path
from typing import Any

import pytest
from ray.autoscaler._private.kuberay import autoscaling_config
from ray.autoscaler._private.util import prepare_config, validate_config
from ray.autoscaler.v2.instance_manager.config import AutoscalingConfig
from ray.autoscaler.v2.scheduler import ResourceDemandScheduler, SchedulingRequest
from ray.autoscaler.v2.utils import ResourceRequestUtil
from ray.core.generated.autoscaler_pb2 import ClusterResourceConstraint
from ray.core.generated.common_pb2 import LabelSelectorOperator

from orchestrator.hardware import classify
from orchestrator.planning.plan import make_plan
from orchestrator.scheduling.node_wait import requests
from orchestrator.spec import load_spec
from tests.infra.files import INFRA, check_shell, document

AWS = INFRA / "cloud/aws.yaml"
MACHINES = INFRA / "machines/cluster.yaml"


def with_defaults(path: Path) -> dict[str, Any]:
    logging.getLogger("ray").setLevel(logging.WARNING)
    return dict(prepare_config(copy.deepcopy(document(path))))


def start_commands(config: dict[str, Any]) -> dict[str, str]:
    return {kind: " ".join(config[f"{kind}_start_ray_commands"]) for kind in ("head", "worker")}


@pytest.mark.parametrize("path", [AWS, MACHINES], ids=lambda path: path.parent.name)
class TestLauncher:
    def test_ray_accepts_the_file(self, path: Path) -> None:
        validate_config(with_defaults(path))

    def test_the_head_runs_no_trials_and_shows_its_dashboard_to_nobody(self, path: Path) -> None:
        commands = start_commands(with_defaults(path))
        assert "--num-cpus=0" in commands["head"]
        assert "--dashboard-host" not in commands["head"]
        assert all("--object-store-memory=134217728" in command for command in commands.values())

    def test_commands_pass_shellcheck(self, path: Path) -> None:
        config = with_defaults(path)
        lists = [commands for key, commands in config.items() if key.endswith("_commands")]
        check_shell(
            "\n".join(["#!/usr/bin/env bash", *(line for lines in lists for line in lines)])
        )


def on_kubernetes() -> dict[str, Any]:
    cluster = document(INFRA / "kubernetes/cluster/raycluster.yaml")
    cluster["metadata"]["namespace"] = "rnnsweep"
    return dict(autoscaling_config._derive_autoscaling_config_from_ray_cr(cluster))


def launches(config: dict[str, Any]) -> dict[str, int]:
    """Return the nodes that start for the sweep, by kind."""
    awaited = make_plan(
        load_spec(INFRA / "kubernetes/job/sweep.yaml"), classify(()), "to come"
    ).awaited
    is_in = LabelSelectorOperator.LABEL_OPERATOR_IN
    resource_requests = [
        ResourceRequestUtil.make(
            dict(resources),
            label_selectors=[[(key, is_in, [value]) for key, value in labels.items()]],
        )
        for resources, labels in requests(awaited)
    ]
    assert len(resource_requests) == 3
    constraint = ClusterResourceConstraint(
        resource_requests=ResourceRequestUtil.group_by_count(resource_requests)
    )
    autoscaling = AutoscalingConfig(configs=copy.deepcopy(config), skip_content_hash=True)
    reply = ResourceDemandScheduler().schedule(
        SchedulingRequest(
            disable_launch_config_check=True,
            node_type_configs=autoscaling.get_node_type_configs(),
            max_num_nodes=autoscaling.get_max_num_nodes(),
            cluster_resource_constraints=[constraint],
        )
    )
    assert not reply.infeasible_cluster_resource_constraints
    return {launch.instance_type: launch.count for launch in reply.to_launch}


@pytest.mark.parametrize("config", [with_defaults(AWS), on_kubernetes()], ids=["aws", "kubernetes"])
def test_one_node_of_each_kind_starts_from_zero(config: dict[str, Any]) -> None:
    assert launches(config) == {"cpu": 1, "gpu-t4": 1, "gpu-l4": 1}
    kinds = dict(config["available_node_types"])
    assert kinds.pop(config["head_node_type"])["resources"]["CPU"] == 0
    for kind in kinds.values():
        assert kind["min_workers"] == 0 < kind["max_workers"] <= config["max_workers"]
