"""The manifests: valid, hanging together, and what Ray's autoscaler makes of them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from ray.autoscaler._private.kuberay import autoscaling_config
from ray.util.accelerators import accelerators

from orchestrator.spec import load
from tests.infra.documents import INFRA, document, documents, locked

KUBERNETES = INFRA / "kubernetes"
README = (KUBERNETES / "README.md").read_text()
CLUSTER, JOB = KUBERNETES / "cluster", KUBERNETES / "job"
MANIFESTS = [
    each
    for path in sorted([*CLUSTER.glob("*.yaml"), *JOB.glob("*.yaml")])
    if path.name not in ("kustomization.yaml", "sweep.yaml")
    for each in documents(path)
]
VERSION = "1.32"  # what is used of Kubernetes has been there, unchanged, for longer than that


def named(kind: str) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in MANIFESTS if each["kind"] == kind}


RAY = named("RayCluster")["rnnsweep"]
GROUPS = {group["groupName"]: group for group in RAY["spec"]["workerGroupSpecs"]}


def walk(value: Any) -> Iterator[dict[str, Any]]:
    """Every mapping in a document, at any depth."""
    if isinstance(value, dict):
        yield value
    for child in value.values() if isinstance(value, dict) else value:
        if isinstance(child, dict | list):
            yield from walk(child)


def found(key: str) -> list[Any]:
    """What stands under a key, anywhere."""
    return [each[key] for manifest in MANIFESTS for each in walk(manifest) if key in each]


def pods() -> dict[str, dict[str, Any]]:
    """Every pod's template, by what makes the pod."""
    made = {
        f"{each['kind']} {each['metadata']['name']}": each["spec"]["template"]
        for each in MANIFESTS
        if each["kind"] in ("Deployment", "StatefulSet")
    }
    made["head"] = RAY["spec"]["headGroupSpec"]["template"]
    return made | {name: group["template"] for name, group in GROUPS.items()}


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda each: f"{each['kind']}")
def test_kubernetes_takes_it(manifest: dict[str, Any]) -> None:
    if manifest["apiVersion"].startswith("ray.io/"):
        assert manifest["apiVersion"] == "ray.io/v1"
    else:
        kubernetes_validate.validate(manifest, VERSION, strict=True)


@pytest.mark.parametrize("name", pods())
def test_kubernetes_takes_the_pods(name: str) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "any"}, **pods()[name]}
    kubernetes_validate.validate(pod, VERSION, strict=True)


@pytest.mark.parametrize("name", pods())
def test_pods_do_not_run_as_root(name: str) -> None:
    assert pods()[name]["spec"]["securityContext"]["runAsNonRoot"] is True


def test_all_secrets_are_the_one_that_the_readme_makes() -> None:
    made = re.findall(r"create secret generic (\w+)", README)
    keys = set(re.findall(r"--from-literal=([\w-]+)=", README))
    assert made == ["rnnsweep"]
    used = found("secretKeyRef")
    assert {each["name"] for each in used} == set(made)
    assert RAY["spec"]["authOptions"] == {"mode": "token", "secretName": made[0]}
    assert {each["key"] for each in used} | {"auth_token"} == keys
    assert not named("Secret"), "a secret in a file is none"


def test_nothing_secret_is_a_plain_value() -> None:
    for variables in found("env"):
        for each in variables:
            if re.search(r"TOKEN|PASSWORD|SECRET|USERNAME", each["name"]):
                assert set(each) == {"name", "valueFrom"}, each["name"]


def test_config_maps_volumes_and_claims_that_are_named_exist() -> None:
    generated = {
        each["name"] for each in document(JOB / "kustomization.yaml")["configMapGenerator"]
    }
    assert {each["name"] for each in found("configMap")} <= set(named("ConfigMap")) | generated
    claims = {each["claimName"] for each in found("persistentVolumeClaim")}
    assert claims == set(named("PersistentVolumeClaim"))
    for name, pod in pods().items():
        stateful = named("StatefulSet").get(name.rpartition(" ")[2], {"spec": {}})
        claimed = stateful["spec"].get("volumeClaimTemplates", [])
        known = {each["name"] for each in pod["spec"].get("volumes", [])}
        known |= {each["metadata"]["name"] for each in claimed}
        for container in pod["spec"]["containers"]:
            mounted = {each["name"] for each in container.get("volumeMounts", [])}
            assert mounted == known, name


def test_services_reach_pods_at_ports_that_they_have() -> None:
    for name, service in named("Service").items():
        reached = [
            container["ports"]
            for pod in pods().values()
            if pod.get("metadata", {}).get("labels") == service["spec"]["selector"]
            for container in pod["spec"]["containers"]
        ]
        assert len(reached) == 1, name
        wanted = {each["port"] for each in service["spec"]["ports"]}
        assert wanted <= {each["containerPort"] for each in reached[0]}, name


def test_hosts_that_are_named_are_services() -> None:
    values = {each["name"]: each.get("value", "") for env in found("env") for each in env}
    mlflow = re.fullmatch(r"http://(\w+):(\d+)", values["MLFLOW_TRACKING_URI"])
    assert mlflow is not None
    assert {values["PGHOST"], mlflow[1]} == set(named("Service"))
    assert f"{mlflow[1]}:{mlflow[2]}" in values["MLFLOW_SERVER_ALLOWED_HOSTS"].split(",")


def test_the_version_of_ray_is_the_images_own() -> None:
    assert RAY["spec"]["rayVersion"] == locked("ray")


def test_images_have_a_name_that_is_chosen_in_one_place() -> None:
    chosen = {each["name"] for each in document(CLUSTER / "kustomization.yaml")["images"]}
    ours = {image for image in found("image") if image.startswith("rnnsweep")}
    assert {image.partition(":")[0] for image in ours} == chosen
    assert ours == {"rnnsweep:cpu", "rnnsweep:gpu", "rnnsweep-mlflow"}
    assert all("/" not in image for image in found("image")), "a registry's name"


def test_the_autoscaler_starts_every_kind_from_zero_and_knows_it_by_its_label() -> None:
    there = RAY | {"metadata": {**RAY["metadata"], "namespace": "any"}}
    config = autoscaling_config._derive_autoscaling_config_from_ray_cr(there)
    kinds = config["available_node_types"]
    assert kinds.pop(config["head_node_type"])["resources"]["CPU"] == 0
    assert {
        name: (kind["resources"]["CPU"], kind["resources"].get("GPU"))
        for name, kind in kinds.items()
    } == {"cpu": (8, None), "gpu-t4": (3, 1), "gpu-l4": (3, 1)}
    for kind in kinds.values():
        assert kind["min_workers"] == 0 < kind["max_workers"]
    labels = [kind["labels"] for kind in kinds.values()]
    known = {value for name, value in vars(accelerators).items() if name.isupper()}
    assert labels[0] == {"ray.io/node-group": "cpu"}
    assert {each["ray.io/accelerator-type"] for each in labels[1:]} == {"T4", "L4"} <= known


def test_a_pod_has_whole_cpus_of_its_own() -> None:
    for name, group in GROUPS.items():
        (container,) = group["template"]["spec"]["containers"]
        resources = container["resources"]
        assert resources["requests"] == resources["limits"], name
        assert isinstance(resources["limits"]["cpu"], int), name


def test_gpu_pods_run_the_gpu_image_on_their_kind_of_node() -> None:
    for name, group in GROUPS.items():
        spec = group["template"]["spec"]
        gpu = "nvidia.com/gpu" in spec["containers"][0]["resources"]["limits"]
        assert gpu == name.startswith("gpu") == spec["containers"][0]["image"].endswith(":gpu")
        if gpu:
            kind = group["labels"]["ray.io/accelerator-type"]
            assert spec["nodeSelector"]["nvidia.com/gpu.product"].endswith(f"-{kind}")


def test_the_job_runs_a_sweep_on_what_the_cluster_can_start() -> None:
    spec = load(JOB / "sweep.yaml")
    wanted = [dict(entry.labels) for entry in spec.arms.hardware]
    assert wanted == [group["labels"] for group in GROUPS.values()]
    assert all(entry.wait_s for entry in spec.arms.hardware)
    mounts = RAY["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    (folder,) = (each["mountPath"] for each in mounts if each["name"] == "sweep")
    (job,) = named("RayJob").values()
    assert job["spec"]["entrypoint"].startswith(f"rnnsweep run {folder}/sweep.yaml ")


def test_kustomize_makes_the_job_with_a_cluster_of_its_own() -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed here")
    asked = [kubectl, "kustomize", str(JOB)]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = {each["kind"]: each for each in yaml.safe_load_all(done.stdout)}
    assert "RayCluster" not in made
    assert {each["metadata"]["namespace"] for each in made.values()} == {"rnnsweep"}
    own = made["RayJob"]["spec"]["rayClusterSpec"]
    assert own["authOptions"] == RAY["spec"]["authOptions"]
    images = re.findall(r"image: (\S+)", done.stdout)
    assert "your-name/rnnsweep:gpu" in images
    assert not [image for image in images if image.startswith("rnnsweep")]


def test_every_manifest_is_applied() -> None:
    for folder in (CLUSTER, JOB):
        listed = document(folder / "kustomization.yaml")["resources"]
        files = {path.name for path in folder.glob("*.yaml")} - {"kustomization.yaml", "sweep.yaml"}
        assert {each for each in listed if Path(each).suffix} == files
