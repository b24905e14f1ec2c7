"""Nodes that Ray's autoscaler starts for a waiting sweep, on AWS and on Kubernetes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ray.autoscaler._private.kuberay import autoscaling_config
from ray.autoscaler._private.util import prepare_config
from ray.autoscaler.v2.instance_manager.config import AutoscalingConfig
from ray.autoscaler.v2.scheduler import ResourceDemandScheduler, SchedulingRequest
from ray.autoscaler.v2.utils import ResourceRequestUtil
from ray.core.generated.autoscaler_pb2 import ClusterResourceConstraint
from ray.core.generated.common_pb2 import LabelSelectorOperator

from orchestrator.hardware import classify
from orchestrator.planning.plan import make_plan
from orchestrator.scheduling.node_wait import requests
from orchestrator.spec import load
from tests.infra.files import INFRA, document

SWEEP = INFRA / "kubernetes/job/sweep.yaml"


def on_aws() -> dict[str, Any]:
    return dict(prepare_config(document(INFRA / "cloud/aws.yaml")))


def on_kubernetes() -> dict[str, Any]:
    cluster = document(INFRA / "kubernetes/cluster/raycluster.yaml")
    cluster["metadata"]["namespace"] = "rnnsweep"
    return dict(autoscaling_config._derive_autoscaling_config_from_ray_cr(cluster))


def launches(config: dict[str, Any]) -> tuple[dict[str, int], int]:
    """Return the nodes that start for the sweep, by kind, and the number of failed requests."""
    awaited = make_plan(load(SWEEP), classify(()), "to come").awaited
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
    started = {launch.instance_type: launch.count for launch in reply.to_launch}
    return started, len(reply.infeasible_cluster_resource_constraints)


@pytest.mark.parametrize("config", [on_aws(), on_kubernetes()], ids=["aws", "kubernetes"])
class TestScaling:
    def test_one_node_of_each_kind_starts_from_zero(self, config: dict[str, Any]) -> None:
        assert launches(config) == ({"cpu": 1, "gpu-t4": 1, "gpu-l4": 1}, 0)
        kinds = dict(config["available_node_types"])
        assert kinds.pop(config["head_node_type"])["resources"]["CPU"] == 0
        for kind in kinds.values():
            assert kind["min_workers"] == 0 < kind["max_workers"] <= config["max_workers"]

    def test_kinds_are_selected_by_their_labels(self, config: dict[str, Any]) -> None:
        without_label = copy.deepcopy(config)
        del without_label["available_node_types"]["gpu-t4"]["labels"]["ray.io/accelerator-type"]
        started, failed = launches(without_label)
        assert "gpu-t4" not in started
        assert failed == 1
