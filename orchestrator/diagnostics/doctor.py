"""Checks before a sweep: what is installed, what answers, what a spec needs, and the cures."""

import os
import platform
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from orchestrator.cluster import connection
from orchestrator.cluster.jobs import Cluster
from orchestrator.core.errors import Refusal
from orchestrator.core.text import counted
from orchestrator.diagnostics.hardware_facts import share_for_trials
from orchestrator.diagnostics.hardware_listing import gpu_notes
from orchestrator.execution.trainer_answers import ask_trainer
from orchestrator.execution.trainer_process import TrainerProcess
from orchestrator.execution.workload_check import check_user_code
from orchestrator.hardware import HardwareClass, Node, NodeProfile, classify
from orchestrator.hardware.files import parse_nodes
from orchestrator.planning.feasibility import absence_reason, matching_classes
from orchestrator.planning.plan import make_plan
from orchestrator.spec import SweepSpec
from orchestrator.spec.reading import refuse_object
from orchestrator.storage.home import LEAST_FREE_MIB, free_mib
from orchestrator.storage.tracking.trackers import tracking_uri, without_passwords
from orchestrator.storage.tracking.tracking_errors import StoreMissing
from workloads.backends.registry import backends
from workloads.eligibility import is_installed
from workloads.failures import DataError
from workloads.implementations import Implementation, parse_implementation
from workloads.protocol import TrialRequest
from workloads.registry import find_workload

_DEVICES = "workloads.diagnostics.devices:report_devices"
_LIST_HARDWARE = "python -m orchestrator hardware --address auto --format json"

_AMPLE_MIB = 2048.0
"""The free space from which a disk is no cause for a warning."""

Announce = Callable[[str], object]
Status: TypeAlias = Literal["ok", "warning", "left out", "missing"]
"""`left out` are hardware and implementations of a spec whose sweep can run without them."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was checked; `cure` is a command, empty where `text` has the next step.

    A sweep cannot do without it if it `is_needed`: by every sweep, or by the spec.
    """

    name: str
    status: Status
    text: str
    cure: str = ""
    is_needed: bool = False


def check_machine(
    home: Path, spec: SweepSpec | None, address: str | None, report: Announce
) -> Iterator[Check]:
    """Yield the checks of this machine, or of the cluster at `address`, quick ones first.

    With a spec, its backends, arms and data are checked. `report` is called with a line before each
    check that takes seconds.
    """
    yield Check("Python", "ok", f"{platform.python_version()} in {sys.prefix}")
    yield from _home(home)
    this_machine = connection.this_machine()
    if address is None:  # else trials run on other machines
        yield from _gpu_notes(this_machine)
        if gpus := this_machine[0].profile.gpus:
            yield Check("GPU", "ok", ", ".join(gpu.name for gpu in gpus))
    report("asking MLflow …")
    yield _needed("MLflow", lambda: _store(home))
    if address is None:
        yield from _backends(spec, classify(this_machine), report)
        report("starting Ray …")
        yield _needed("Ray", _start_ray)
        classes = classify(this_machine)
    else:
        report(f"connecting to {address} …")
        joined = yield from _join(address, report)
        if joined is None:
            if spec is not None:
                text = "not checked, because the nodes of the cluster are unknown"
                yield Check(spec.name, "warning", text)
            return
        classes = classify(joined.nodes)
        for node in joined.nodes:
            address = joined.addresses.get(node.id, "")
            yield _check_node(node, address, classes, this_machine[0].profile)
        yield from _gpu_notes(joined.nodes)
    if spec is not None:
        yield from _sweep(spec, classes, on_cluster=address is not None)


def _start_ray() -> str:
    with connection.connect(None) as nodes:
        return f"starts here, with {counted(len(nodes), 'node')}"


class _Joined(NamedTuple):
    """The nodes of a cluster that can run trials, and the address of each where it is known."""

    nodes: Sequence[Node]
    addresses: Mapping[str, str]


def _join(address: str, report: Announce) -> Generator[Check, None, _Joined | None]:
    """Reach a cluster by Ray's address, or its dashboard's; return its nodes if they are known.

    A dashboard has no list of them that says enough: a job on the head makes it.
    """
    try:
        if "://" in address:
            return (yield from _list_by_job(Cluster(address), report))
        with connection.connect(address, may_be_empty=True) as nodes:
            addresses = connection.node_addresses()
    except Refusal as error:
        yield Check("Ray", "missing", str(error), is_needed=True)
        return None
    text = f"{address} has {counted(len(nodes), 'node')} for trials"
    yield Check("Ray", "ok", text, is_needed=True)
    known = [node.id for node in nodes]
    for node in addresses:
        if node.id not in known:
            text = f"{node.address}: no trials, because its Ray node has no CPUs"
            yield Check(node.host, "ok", text)
    return _Joined(nodes, {node.id: node.address for node in addresses})


def _list_by_job(cluster: Cluster, report: Announce) -> Generator[Check, None, _Joined | None]:
    starts = counted(len(cluster.starts()), "submitted start")
    yield Check("Ray", "ok", f"{cluster.address} answers ({starts})", is_needed=True)
    report("listing its nodes, by a job on its head …")
    try:
        listing = cluster.fetch(f"{_LIST_HARDWARE} > nodes.json", "nodes.json", "hardware")
        return _Joined(parse_nodes(listing.encode(), f"the hardware of {cluster.address}"), {})
    except Refusal as error:
        yield Check("nodes", "warning", str(error))
        return None


def _gpu_notes(nodes: Sequence[Node]) -> Iterator[Check]:
    """Report GPUs that cannot be used, and why there are none."""
    for note in gpu_notes(nodes):
        yield Check("GPU", "warning" if note.is_problem else "ok", note.text)


def _check_node(
    node: Node, address: str, classes: Sequence[HardwareClass], here: NodeProfile
) -> Check:
    """Describe a node of a cluster, and compare its versions with those of this machine."""
    profile, versions, own = node.profile, _versions(node.profile), _versions(here)
    differences = {
        name: (versions.get(name), version)
        for name, version in own.items()
        if versions.get(name) != version
    }
    names = tuple(item.name for item in classes if node in item.nodes)
    kinds = f" ({', '.join(node.gpu_names)})" if node.gpu_names else ""
    lines = [
        f"{address or node.id[:8]}: {share_for_trials(node)}{kinds}",
        f"hardware class {'; '.join(names)}",
        ", ".join(f"{name} {version}" for name, version in versions.items()),
    ]
    if differences:
        texts = [
            f"{name} {there or 'is not installed'} (here {version})"
            for name, (there, version) in differences.items()
        ]
        lines.append(f"differs from this machine: {', '.join(texts)}")
    status: Status = "warning" if differences else "ok"
    return Check(profile.hostname, status, "\n".join(lines))


def _versions(profile: NodeProfile) -> dict[str, str]:
    return {"Python": profile.python, **profile.packages}


def _needed(name: str, ask_for: Callable[[], str]) -> Check:
    try:
        return Check(name, "ok", ask_for(), is_needed=True)
    except (Refusal, DataError) as error:
        return Check(name, "missing", str(error), is_needed=True)


def _home(home: Path) -> Iterator[Check]:
    cure = "export RNNSWEEP_HOME=FOLDER"
    folder = next(path for path in (home, *home.parents) if path.exists())
    if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK):
        yield Check("home", "ok", str(home))
    else:
        yield Check("home", "missing", f"cannot write to {folder}", cure, is_needed=True)
    free = free_mib(folder)
    disk = Check("disk", "ok", f"{free / 1024:,.1f} GiB free in {folder}")
    if free < LEAST_FREE_MIB:
        yield replace(disk, status="missing", cure=cure, is_needed=True)
    else:
        yield disk if free > _AMPLE_MIB else replace(disk, status="warning", cure=cure)


def _store(home: Path) -> str:
    from orchestrator.storage.tracking.reader import list_sweeps  # noqa: PLC0415  (MLflow: seconds)

    uri = tracking_uri(home, os.environ)
    try:
        return f"{without_passwords(uri)} has {counted(len(list_sweeps(uri)), 'sweep')}"
    except StoreMissing:
        return f"the first sweep will create {without_passwords(uri)}"


def _backends(
    spec: SweepSpec | None, classes: Sequence[HardwareClass], report: Announce
) -> Iterator[Check]:
    """Start each installed backend, of the spec or of all, and report the devices that it sees."""
    names = set(backends())
    if spec is not None:
        parsed = (parse_implementation(t) for t in spec.arms.implementations)
        names = {implementation.backend for implementation in parsed}
        classes = [
            hardware_class
            for entry in spec.hardware
            for hardware_class in matching_classes(entry, classes)
        ]
    has_gpu = any(item.device == "gpu" for item in classes)
    has_backend = any(is_installed(backend.package) for backend in backends().values())
    is_needed = spec is not None or not has_backend  # without a spec any one backend is enough
    for name, backend in backends().items():
        if name not in names:
            continue
        if not is_installed(backend.package):
            yield Check(name, "missing", "not installed", backend.how_to_install, is_needed)
            continue
        report(f"starting {name} …")
        request = TrialRequest(_DEVICES, f"{name}/portable", device="gpu" if has_gpu else "cpu")
        with TrainerProcess(Implementation(name, "portable"), request.device) as trainer:
            answer = ask_trainer(trainer, request)
        if answer.reason is not None:
            status: Status = "missing" if is_needed else "warning"
            yield Check(name, status, answer.reason, is_needed=is_needed)
        else:
            version, facts = answer.facts.get(backend.package), answer.facts
            text = f"{version} with Keras {facts['keras']} sees {facts['devices']}"
            yield Check(name, "ok", text)


def _sweep(
    spec: SweepSpec, classes: Sequence[HardwareClass], *, on_cluster: bool
) -> Iterator[Check]:
    """Check the workload, the data, and that every hardware and implementation has an arm.

    While any arm can run, a sweep leaves out those that cannot.
    """

    def load() -> str:
        nonlocal spec
        refuse = partial(refuse_object, spec.name, spec)
        spec = check_user_code(
            spec, on_cluster=on_cluster, refuse=refuse, hardware=None if on_cluster else classes
        )
        if not on_cluster:
            find_workload(spec.workload_name).expect_data(spec.settings)
        has_data = spec.model is None or spec.data is not None
        return f"{spec.workload_name}, with its data" if has_data else spec.workload_name

    yield _needed("workload", load)
    plan = make_plan(spec, classes, "to come" if on_cluster else None)
    names = [arm.implementation for arm in plan.arms]
    names += [awaited.arm.implementation for awaited in plan.awaited]
    without_arm: Status = "left out" if names else "missing"
    for entry in spec.hardware:
        present = ", ".join(
            hardware_class.name for hardware_class in matching_classes(entry, classes)
        )
        if present or (on_cluster and entry.wait_s):
            yield Check(str(entry), "ok", present or "no node yet; a sweep waits for one")
        else:
            reason = absence_reason(entry, classes)
            yield Check(str(entry), without_arm, reason, is_needed=not names)
    for name in spec.arms.implementations:
        if count := names.count(name):
            yield Check(name, "ok", f"can run in {counted(count, 'arm')}")
        else:
            reasons = (
                impossible.reason
                for impossible in plan.impossible
                if impossible.arm.implementation == name
            )
            text = "; ".join(dict.fromkeys(reasons))
            yield Check(name, without_arm, text, is_needed=not names)
