"""The manifests: valid, consistent, and read by Ray's autoscaler as intended."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import kubernetes_validate
import pytest
import yaml
from ray.autoscaler._private.kuberay import autoscaling_config
from ray.util.accelerators import accelerators

from orchestrator.spec import load
from tests.infra.documents import INFRA, document, documents

KUBERNETES = INFRA / "kubernetes"
README = (KUBERNETES / "README.md").read_text()
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


def walk(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every mapping in a document, at any depth."""
    if isinstance(value, dict):
        yield value
    for child in value.values() if isinstance(value, dict) else value:
        if isinstance(child, dict | list):
            yield from walk(child)


def values_of(key: str) -> list[Any]:
    """Return the values of a key in all manifests, at any depth."""
    return [mapping[key] for manifest in MANIFESTS for mapping in walk(manifest) if key in mapping]


def pods() -> dict[str, dict[str, Any]]:
    """Return every pod's template, by the name of its owner."""
    templates = {
        f"{manifest['kind']} {manifest['metadata']['name']}": manifest["spec"]["template"]
        for manifest in MANIFESTS
        if manifest["kind"] in ("Deployment", "StatefulSet")
    }
    templates["head"] = RAY["spec"]["headGroupSpec"]["template"]
    return templates | {name: group["template"] for name, group in GROUPS.items()}


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: f"{manifest['kind']}")
def test_a_manifest_matches_kubernetes_schema(manifest: dict[str, Any]) -> None:
    if manifest["apiVersion"].startswith("ray.io/"):
        assert manifest["apiVersion"] == "ray.io/v1"
    else:
        kubernetes_validate.validate(manifest, VERSION, strict=True)


@pytest.mark.parametrize("name", pods())
def test_a_pod_matches_kubernetes_schema(name: str) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "any"}, **pods()[name]}
    kubernetes_validate.validate(pod, VERSION, strict=True)


@pytest.mark.parametrize("name", pods())
def test_pods_do_not_run_as_root(name: str) -> None:
    assert pods()[name]["spec"]["securityContext"]["runAsNonRoot"] is True


def test_every_secret_is_the_one_created_by_the_readme() -> None:
    secrets = re.findall(r"create secret generic (\w+)", README)
    keys = set(re.findall(r"--from-literal=([\w-]+)=", README))
    assert secrets == ["rnnsweep"]
    references = values_of("secretKeyRef")
    assert {reference["name"] for reference in references} == set(secrets)
    assert RAY["spec"]["authOptions"] == {"mode": "token", "secretName": secrets[0]}
    assert {reference["key"] for reference in references} | {"auth_token"} == keys
    assert not by_name("Secret"), "secrets do not belong in files"


def test_no_secret_is_a_plain_value() -> None:
    for variables in values_of("env"):
        for variable in variables:
            if re.search(r"TOKEN|PASSWORD|SECRET|USERNAME", variable["name"]):
                assert set(variable) == {"name", "valueFrom"}, variable["name"]


def test_referenced_config_maps_volumes_and_claims_exist() -> None:
    generated = {
        generator["name"]
        for generator in document(JOB / "kustomization.yaml")["configMapGenerator"]
    }
    assert {reference["name"] for reference in values_of("configMap")} <= set(
        by_name("ConfigMap")
    ) | generated
    claims = {reference["claimName"] for reference in values_of("persistentVolumeClaim")}
    assert claims == set(by_name("PersistentVolumeClaim"))
    for name, pod in pods().items():
        stateful = by_name("StatefulSet").get(name.rpartition(" ")[2], {"spec": {}})
        templates = stateful["spec"].get("volumeClaimTemplates", [])
        volumes = {volume["name"] for volume in pod["spec"].get("volumes", [])}
        volumes |= {template["metadata"]["name"] for template in templates}
        for container in pod["spec"]["containers"]:
            mounted = {mount["name"] for mount in container.get("volumeMounts", [])}
            assert mounted == volumes, name


def test_referenced_hosts_are_services() -> None:
    values = {
        variable["name"]: variable.get("value", "") for env in values_of("env") for variable in env
    }
    mlflow = re.fullmatch(r"http://(\w+):(\d+)", values["MLFLOW_TRACKING_URI"])
    assert mlflow is not None
    assert {values["PGHOST"], mlflow[1]} == set(by_name("Service"))
    assert f"{mlflow[1]}:{mlflow[2]}" in values["MLFLOW_SERVER_ALLOWED_HOSTS"].split(",")


def test_image_names_are_set_in_one_place() -> None:
    chosen = {image["name"] for image in document(CLUSTER / "kustomization.yaml")["images"]}
    ours = {image for image in values_of("image") if image.startswith("rnnsweep")}
    assert {image.partition(":")[0] for image in ours} == chosen
    assert ours == {"rnnsweep:cpu", "rnnsweep:gpu", "rnnsweep-mlflow"}
    assert all("/" not in image for image in values_of("image")), (
        "an image name contains a registry"
    )


def test_the_autoscaler_starts_every_labelled_kind_from_zero() -> None:
    resource = RAY | {"metadata": {**RAY["metadata"], "namespace": "any"}}
    config = autoscaling_config._derive_autoscaling_config_from_ray_cr(resource)
    kinds = config["available_node_types"]
    assert kinds.pop(config["head_node_type"])["resources"]["CPU"] == 0
    assert {
        name: (kind["resources"]["CPU"], kind["resources"].get("GPU"))
        for name, kind in kinds.items()
    } == {"cpu": (8, None), "gpu-t4": (3, 1), "gpu-l4": (3, 1)}
    for kind in kinds.values():
        assert kind["min_workers"] == 0 < kind["max_workers"]
    labels = [kind["labels"] for kind in kinds.values()]
    accelerator_names = {value for name, value in vars(accelerators).items() if name.isupper()}
    assert labels[0] == {"ray.io/node-group": "cpu"}
    assert (
        {label["ray.io/accelerator-type"] for label in labels[1:]}
        == {"T4", "L4"}
        <= accelerator_names
    )


def test_gpu_pods_run_the_gpu_image_on_their_kind_of_node() -> None:
    for name, group in GROUPS.items():
        spec = group["template"]["spec"]
        gpu = "nvidia.com/gpu" in spec["containers"][0]["resources"]["limits"]
        assert gpu == name.startswith("gpu") == spec["containers"][0]["image"].endswith(":gpu")
        if gpu:
            kind = group["labels"]["ray.io/accelerator-type"]
            assert spec["nodeSelector"]["nvidia.com/gpu.product"].endswith(f"-{kind}")


def test_the_job_runs_a_sweep_on_nodes_that_the_cluster_can_start() -> None:
    spec = load(JOB / "sweep.yaml")
    labels = [dict(entry.labels) for entry in spec.arms.hardware]
    assert labels == [group["labels"] for group in GROUPS.values()]
    assert all(entry.wait_s for entry in spec.arms.hardware)
    mounts = RAY["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    (folder,) = (mount["mountPath"] for mount in mounts if mount["name"] == "sweep")
    (job,) = by_name("RayJob").values()
    assert job["spec"]["entrypoint"].startswith(f"rnnsweep run {folder}/sweep.yaml ")


@pytest.mark.full
def test_kustomize_gives_the_job_its_own_cluster() -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed here")
    command = [kubectl, "kustomize", str(JOB)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    manifests = {manifest["kind"]: manifest for manifest in yaml.safe_load_all(done.stdout)}
    assert "RayCluster" not in manifests
    assert {manifest["metadata"]["namespace"] for manifest in manifests.values()} == {"rnnsweep"}
    cluster = manifests["RayJob"]["spec"]["rayClusterSpec"]
    assert cluster["authOptions"] == RAY["spec"]["authOptions"]
    images = re.findall(r"image: (\S+)", done.stdout)
    assert "your-name/rnnsweep:gpu" in images
    assert not [image for image in images if image.startswith("rnnsweep")]
