"""Reasons why an arm cannot run: absent hardware, or an implementation unfit for the configs."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from orchestrator.core.arms import Variant
from orchestrator.core.selectors import carries, labels_text, selects
from orchestrator.core.text import counted
from orchestrator.core.trial import Config, ConfigValue, value_text
from orchestrator.hardware import HardwareClass, no_gpu_class_reason
from orchestrator.hardware.gpu_readers import kinds_of_gpus
from orchestrator.spec import HardwareEntry, SweepSpec
from orchestrator.spec.model_probes import model_probes
from orchestrator.spec.space import Space, activation, example
from orchestrator.spec.spec_errors import nearest
from workloads import registry
from workloads.backends.registry import backends, parse_known_implementation
from workloads.eligibility import ineligibility_reason, layer_ineligibility_reason
from workloads.implementations import AUTO, Implementation
from workloads.layer_traits import LayerTraits
from workloads.model_facts import ModelFacts, ModelFault
from workloads.own_code import read_code
from workloads.registry import Workload

_NODE_ID = "ray.io/node-id"


def matching_classes(
    entry: HardwareEntry, hardware: Sequence[HardwareClass]
) -> list[HardwareClass]:
    """Return the classes that an entry means, each with its nodes that have the labels.

    Without a class it means one device of each node: its GPUs, or its CPU if it has no GPU.
    """
    gpu_ids = {node.id for group in hardware if group.device == "gpu" for node in group.nodes}
    classes = []
    for group in hardware:
        if entry.selector is not None and not group.matches(entry.selector):
            continue
        is_spare_cpu = entry.selector is None and group.device == "cpu"
        nodes = tuple(
            node
            for node in group.nodes
            if carries(node.labels, entry.labels) and not (is_spare_cpu and node.id in gpu_ids)
        )
        if nodes:
            classes.append(replace(group, nodes=nodes))
    return classes


def absence_reason(entry: HardwareEntry, hardware: Sequence[HardwareClass]) -> str:
    """Return why none of the present `hardware` is what an entry of the spec means."""
    nodes = {node.id: node for hardware_class in hardware for node in hardware_class.nodes}
    labelled = [node for node in nodes.values() if carries(node.labels, entry.labels)]
    if not labelled:
        pairs = {pair for node in nodes.values() for pair in node.labels.items()}
        present = ", ".join(sorted(f"{k}={v}" for k, v in pairs if k != _NODE_ID))
        others = f"labels of the nodes: {present or 'none'}"
        return f"no node has the labels {labels_text(entry.labels)} ({others})"
    selector = entry.selector
    for node in labelled:  # GPUs that are unlike form no class
        unusable = [node.gpu_class(gpu.name) for gpu in node.profile.gpus]
        is_meant = any(selector is None or selects(selector, ref) for ref in unusable)
        if is_meant and (why := no_gpu_class_reason(node)):
            return why
    if selector is None:
        return "no node with these labels takes trials"
    faults = "".join(  # a GPU that does not answer may be meant
        f"; on {node.profile.hostname}, {fault}"
        for node in labelled
        for fault in node.profile.gpu_faults
    )
    if selector == "gpu":
        where = counted(len({node.profile.hostname for node in labelled}), "node")
        vendors, libraries = kinds_of_gpus()
        return f"no {vendors} GPU found on {where} (asked through {libraries}){faults}"
    if entry.labels and any(hardware_class.matches(selector) for hardware_class in hardware):
        return f"no node of this class has the labels {labels_text(entry.labels)}"
    names = [hardware_class.name for hardware_class in hardware]
    near = nearest(selector, ["cpu", "gpu", *names])
    present = ", ".join(map(repr, names))
    hint = f" ({near})" if near else ""
    return f"no node is of this class; the classes here: {present}{hint}{faults}"


def unusable_reason(entry: HardwareEntry, hardware: HardwareClass) -> str | None:
    """Return why a node of a class is too small for an entry; None if no node is."""
    smallest = min(min(node.cpus, node.profile.cpus) for node in hardware.nodes)
    has = f"a node of {hardware.name} has {counted(smallest, 'CPU')}"
    if entry.cpus is not None and hardware.device == "cpu":
        return "cpus: a CPU arm takes its whole node; use threads to limit the trainer"
    if entry.cpus is not None and entry.cpus > smallest:
        return f"cpus: {entry.cpus} for a trial, but {has}"
    if entry.threads is not None and entry.threads > smallest:
        return f"threads: {entry.threads} for a trial, but {has}"
    return None


def arm_ineligibility_reason(
    spec: SweepSpec, implementation: str, variant: Variant | None, hardware: HardwareClass
) -> str | None:
    """Return why an arm of this variant cannot run some config of the spec there, or None."""
    workload = registry.find_workload(spec.workload_name)
    if workload.names_own_implementations:  # its implementations are names of its own
        return None
    parsed = parse_known_implementation(implementation)
    if workload.is_own_model:
        return own_model_reason(spec, parsed, variant, hardware)

    def reason_of(settings: Mapping[str, Any]) -> str | None:
        if not workload.accepts(settings):
            return None
        traits, capability = workload.traits(settings), hardware.compute_capability
        return ineligibility_reason(
            parsed, traits, hardware.device, capability=capability, timed_work=spec.measure.of
        )

    fixed = {**spec.written_settings(), **(variant.settings if variant else {})}
    if spec.search.listed:
        return _listed_config_reason(fixed, spec.search.listed, reason_of)
    reasons = (
        f"{why}{because}"
        for settings, because in _probes(fixed, spec.search.space, workload)
        if (why := reason_of(settings))
    )
    return next(reasons, None)


def layers_are_masked(spec: SweepSpec, implementation: str, variant: Variant | None) -> bool:
    """Return whether some config of an arm runs masked layers in a library's call on a GPU."""
    workload = registry.find_workload(spec.workload_name)
    parsed = parse_known_implementation(implementation)
    if workload.is_own_model:
        inspection = spec.inspections.get(parsed.backend)
        return isinstance(inspection, ModelFacts) and any(
            fact.is_masked and fact.implementation == str(parsed) for fact in inspection.arms
        )
    if parsed.kernel == AUTO:  # then Keras uses cuDNN wherever it can
        parsed = replace(parsed, kernel="cudnn")
    if not backends()[parsed.backend].kernel_library(parsed.kernel):
        return False
    fixed = {**spec.written_settings(), **(variant.settings if variant else {})}
    if spec.search.listed:
        candidates: Iterable[Mapping[str, Any]] = [{**fixed, **c} for c in spec.search.listed]
    else:
        candidates = (settings for settings, _ in _probes(fixed, spec.search.space, workload))
    all_traits = [workload.traits(each) for each in candidates if workload.accepts(each)]
    return any(
        traits.mask != "none" and layer_ineligibility_reason(parsed, traits) is None
        for traits in all_traits
    )


def own_model_reason(
    spec: SweepSpec,
    implementation: Implementation,
    variant: Variant | None,
    hardware: HardwareClass,
) -> str | None:
    """Return why an arm cannot run the own model of a spec.

    Before the model has been built on the arm's backend, only the device and the options decide.
    """
    inspection = spec.inspections.get(implementation.backend)
    if isinstance(inspection, ModelFault):
        return _backend_reason(spec, implementation.backend, inspection)
    reason = ineligibility_reason(
        implementation,
        LayerTraits(),
        hardware.device,
        capability=hardware.compute_capability,
        written_in="unknown",
        timed_work=spec.measure.of,
    )
    if reason is not None or inspection is None:
        return reason
    probes = model_probes(spec)
    name = variant.name if variant else None
    facts = [
        fact
        for fact in inspection.arms
        if (fact.implementation, fact.device) == (str(implementation), hardware.device)
        and probes[fact.probe].variant == name
    ]
    first = next((fact for fact in facts if fact.reason is not None), None)
    if first is None:
        return None
    is_of_every_config = all(fact.reason == first.reason for fact in facts)
    return f"{first.reason}{'' if is_of_every_config else probes[first.probe].because}"


def _backend_reason(spec: SweepSpec, backend: str, fault: ModelFault) -> str:
    """Return why the own model cannot be built on a backend; it can be on another one."""
    code, reason = read_code(spec.workload_name), " ".join(fault.text.splitlines()[:2])
    foreign = [
        b for b in backends().values() if b.name != backend and code and b.package in code.imports
    ]
    if foreign:
        return f"{spec.model} uses {foreign[0].title}'s own operations: {reason}"
    return f"{spec.model} cannot be built on {backend}: {reason}"


def _listed_config_reason(
    fixed: Mapping[str, Any],
    configs: Sequence[Config],
    reason_of: Callable[[Mapping[str, Any]], str | None],
) -> str | None:
    """Return why a listed config cannot run, with the value that another config does not have."""
    reasons = [reason_of({**fixed, **config}) for config in configs]
    reason = next(filter(None, reasons), None)
    alternative = next(
        (c for c, its_reason in zip(configs, reasons, strict=True) if its_reason != reason), None
    )
    if reason is None or alternative is None:
        return reason  # none, or whatever the config
    index = reasons.index(reason)
    for name, value in configs[index].items():
        if reason_of({**fixed, **configs[index], name: alternative[name]}) != reason:
            return f"{reason} (search.configs[{index}] has {name}: {value_text(value)})"
    return f"{reason} (in search.configs[{index}])"


def _probes(
    fixed: Mapping[str, Any], space: Space, workload: Workload
) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield the fixed settings, then these with each value of the space, with a clause for it."""
    # If the workload needs more values of the space, they come from a whole config.

    def completed(chosen: Mapping[str, ConfigValue], on: Mapping[str, ConfigValue]) -> Any:
        settings = {**fixed, **chosen}
        if workload.accepts(settings):
            return settings
        return {**fixed, **example(space, {**on, **chosen})}

    yield completed({}, {}), ""
    for name, dimension in space.items():
        on = activation(space, name) or {}
        for value in dimension.probes:
            because = f" (the space has {name}: {value_text(value)})"
            yield completed({name: value}, on), because
