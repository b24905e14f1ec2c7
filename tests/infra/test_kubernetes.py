"""The manifests: valid, consistent, and a job that the cluster can run."""

import os
import re
import shutil
from collections.abc import Iterator
from typing import Any

import kubernetes_validate
import pytest
import yaml

from orchestrator.spec import load_spec
from tests.commands import Command
from tests.infra.files import INFRA, document, documents

KUBERNETES = INFRA / "kubernetes"
CLUSTER, JOB = KUBERNETES / "cluster", KUBERNETES / "job"
MANIFESTS = [
    manifest
    for path in sorted([*CLUSTER.glob("*.yaml"), *JOB.glob("*.yaml")])
    if path.name not in ("kustomization.yaml", "sweep.yaml")
    for manifest in documents(path)
]
VERSION = "1.32"  # the manifests use only features that are older


def by_name(kind: str) -> dict[str, dict[str, Any]]:
    return {
        manifest["metadata"]["name"]: manifest for manifest in MANIFESTS if manifest["kind"] == kind
    }


RAY = by_name("RayCluster")["rnnsweep"]
GROUPS = {group["groupName"]: group for group in RAY["spec"]["workerGroupSpecs"]}
HEAD = RAY["spec"]["headGroupSpec"]
SETS = {**by_name("Deployment"), **by_name("StatefulSet")}
PODS = {
    **{name: manifest["spec"]["template"] for name, manifest in SETS.items()},
    **{name: group["template"] for name, group in GROUPS.items()},
    "head": HEAD["template"],
}


def walk(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for child in value.values() if isinstance(value, dict) else value:
        if isinstance(child, dict | list):
            yield from walk(child)


def values_of(key: str) -> list[Any]:
    return [mapping[key] for mapping in walk(MANIFESTS) if key in mapping]


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: f"{manifest['kind']}")
def test_a_manifest_matches_kubernetes_schema(manifest: dict[str, Any]) -> None:
    if manifest["apiVersion"].startswith("ray.io/"):
        assert manifest["apiVersion"] == "ray.io/v1"
    else:
        kubernetes_validate.validate(manifest, VERSION, strict=True)


@pytest.mark.parametrize("name", PODS)
def test_a_pod_matches_kubernetes_schema_and_does_not_run_as_root(name: str) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "any"}, **PODS[name]}
    kubernetes_validate.validate(pod, VERSION, strict=True)
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True


def test_every_secret_is_the_one_created_by_the_readme() -> None:
    readme = (KUBERNETES / "README.md").read_text()
    assert re.findall(r"create secret generic (\w+)", readme) == ["rnnsweep"]
    references = values_of("secretKeyRef")
    assert {reference["name"] for reference in references} == {"rnnsweep"}
    assert RAY["spec"]["authOptions"] == {"mode": "token", "secretName": "rnnsweep"}
    keys = {reference["key"] for reference in references} | {"auth_token"}
    assert keys == set(re.findall(r"--from-literal=([\w-]+)=", readme))


def test_referenced_config_maps_volumes_and_claims_exist() -> None:
    generators = document(JOB / "kustomization.yaml")["configMapGenerator"]
    maps = {generator["name"] for generator in generators} | set(by_name("ConfigMap"))
    assert {reference["name"] for reference in values_of("configMap")} <= maps
    claims = {reference["claimName"] for reference in values_of("persistentVolumeClaim")}
    assert claims == set(by_name("PersistentVolumeClaim"))
    for name, pod in PODS.items():
        templates = SETS.get(name, {"spec": {}})["spec"].get("volumeClaimTemplates", [])
        volumes = {volume["name"] for volume in pod["spec"].get("volumes", [])}
        volumes |= {template["metadata"]["name"] for template in templates}
        for container in pod["spec"]["containers"]:
            assert {mount["name"] for mount in container.get("volumeMounts", [])} == volumes, name


def test_the_job_runs_a_sweep_on_nodes_that_the_cluster_can_start() -> None:
    spec = load_spec(JOB / "sweep.yaml")
    labels = [dict(entry.labels) for entry in spec.arms.hardware]
    assert labels == [group["labels"] for group in GROUPS.values()]
    assert all(entry.wait_s for entry in spec.arms.hardware)
    mounts = HEAD["template"]["spec"]["containers"][0]["volumeMounts"]
    (folder,) = (mount["mountPath"] for mount in mounts if mount["name"] == "sweep")
    (job,) = by_name("RayJob").values()
    assert job["spec"]["entrypoint"].startswith(f"rnnsweep run {folder}/sweep.yaml ")


@pytest.mark.full
def test_kustomize_gives_the_job_its_own_cluster() -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed here")
    shown = Command([kubectl, "kustomize", JOB], os.environ).done().expect().out
    manifests = {manifest["kind"]: manifest for manifest in yaml.safe_load_all(shown)}
    assert "RayCluster" not in manifests
    assert {manifest["metadata"]["namespace"] for manifest in manifests.values()} == {"rnnsweep"}
    cluster = manifests["RayJob"]["spec"]["rayClusterSpec"]
    assert cluster["authOptions"] == RAY["spec"]["authOptions"]
    images = re.findall(r"image: (\S+)", shown)
    assert "your-name/rnnsweep:gpu" in images
    assert not [image for image in images if image.startswith("rnnsweep")]
