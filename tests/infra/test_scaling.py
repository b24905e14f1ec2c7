"""What a sweep waits for, and what Ray's autoscaler starts for it, on AWS and on Kubernetes."""

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
from tests.infra.documents import INFRA, document

SWEEP = INFRA / "kubernetes/job/sweep.yaml"


def on_aws() -> dict[str, Any]:
    return dict(prepare_config(document(INFRA / "cloud/aws.yaml")))


def on_kubernetes() -> dict[str, Any]:
    cluster = document(INFRA / "kubernetes/cluster/raycluster.yaml")
    cluster["metadata"]["namespace"] = "rnnsweep"
    return dict(autoscaling_config._derive_autoscaling_config_from_ray_cr(cluster))


def started(config: dict[str, Any]) -> tuple[dict[str, int], int]:
    """How many nodes of each kind start for the sweep on an empty cluster; how many wishes fail."""
    awaited = make_plan(load(SWEEP), classify(()), "to come").awaited
    asked = [
        ResourceRequestUtil.make(
            dict(resources),
            label_selectors=[
                [(key, LabelSelectorOperator.LABEL_OPERATOR_IN, [value])]
                for key, value in labels.items()
            ],
        )
        for resources, labels in requests(awaited)
    ]
    assert len(asked) == 3
    seen = AutoscalingConfig(configs=copy.deepcopy(config), skip_content_hash=True)
    reply = ResourceDemandScheduler().schedule(
        SchedulingRequest(
            disable_launch_config_check=True,
            node_type_configs=seen.get_node_type_configs(),
            max_num_nodes=seen.get_max_num_nodes(),
            cluster_resource_constraints=[
                ClusterResourceConstraint(
                    resource_requests=ResourceRequestUtil.group_by_count(asked)
                )
            ],
        )
    )
    launched = {each.instance_type: each.count for each in reply.to_launch}
    return launched, len(reply.infeasible_cluster_resource_constraints)


@pytest.mark.parametrize("config", [on_aws(), on_kubernetes()], ids=["aws", "kubernetes"])
class TestScaling:
    def test_one_node_of_each_kind_starts(self, config: dict[str, Any]) -> None:
        assert started(config) == ({"cpu": 1, "gpu-t4": 1, "gpu-l4": 1}, 0)

    def test_it_is_the_labels_that_tell_the_kinds_apart(self, config: dict[str, Any]) -> None:
        without = copy.deepcopy(config)
        del without["available_node_types"]["gpu-t4"]["labels"]["ray.io/accelerator-type"]
        launched, failed = started(without)
        assert "gpu-t4" not in launched
        assert failed == 1
