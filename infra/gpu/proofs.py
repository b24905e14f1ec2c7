"""The checks: kernels, their numbers and refusals; then times, memory and power."""

import itertools
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from infra.gpu.expectations import BY_HAND, TWICE_THE_BATCH
from infra.gpu.lab import Lab
from infra.gpu.outcomes import Outcome, judged
from orchestrator.execution.telemetry import Instruments, Recording, TelemetrySampler, record
from orchestrator.execution.trainer_answers import TrainerAnswer
from orchestrator.hardware import probe
from workloads.eligibility import ineligibility_reason
from workloads.implementations import AUTO, KERNELS, OPTIONS, Precision, parse_implementation
from workloads.layer_traits import LayerTraits
from workloads.protocol import Device

_PROVABLE = [kernel for kernel in KERNELS if kernel != AUTO]
"""The kernels that an arm asks for by name: whatever runs agrees with `auto`."""

FALL_BACKS = {
    "tensorflow": [("lstm", "recurrent dropout")],
    "jax": [("lstm", "recurrent dropout"), ("gru", "no such kernel")],
    "torch": [("lstm", "recurrent dropout"), ("lstm", "an error in cuDNN")],
}
"""Cell, and why its layer runs another kernel than cuDNN (`probes.fallen_back`)."""

TOLERANCES: Mapping[Precision, float] = {"float32": 2e-5, "tf32": 1e-2, "fp16": 1e-2, "bf16": 5e-2}
"""For outputs and gradients, relative to the largest value of each. Two layers in both directions
differ by 4e-7, 2e-3 (fp16) and 1e-2 (bf16) on a CPU; TF32 rounds as fp16 does. TF32 where float32
was requested shows as some 1e-4, a gate in the wrong place as some 1e-1."""

_LEAST_ROUNDING = 3e-5
"""A lower precision that differs by less, at 256 units, did not round: float32 ran."""

NUMBERS = "tests.building.recurrent_reference:numbers"
PRESENCE = "workloads.diagnostics.devices:report_devices"
MASKED_BATCHES_WORKLOAD = "workloads.diagnostics.masked_batches:check_masks"
_TINY = {"units": 16, "features": 8, "sequence_length": 6, "batch_size": 4, "timed_steps": 2}
_ROWS: dict[str, Any] = {
    "dataset": "digits",
    "epochs": 1,
    "validation_samples": 16,
    "units": 16,
    "layers": 2,
    "dropout": 0.0,
    "timed_steps": 2,
}
ROLES = ("outputs", "last", "by_inputs", "by_kernel", "by_recurrent_kernel", "by_bias")
_SAME_LOSS = 1e-3
_MEMORY_SHAPE = "char_rnn"
_SPEED = ("step_ms", "step_ms_median", "forward_ms")
_PHASES = ("step_ms", "evaluate_s", "predict_s", "predict_sample_ms")
_COMPACTED = "not part of single contiguous chunk"  # PyTorch's warning of copies in every call


def evidence(lab: Lab, backend: str) -> Iterator[Outcome]:
    """Check that every kernel, cell and option runs as requested, or is refused as predicted."""
    stacks = ((1, False), (2, True))
    for kernel, cell, (layers, both) in itertools.product(_PROVABLE, lab.sizes.cells, stacks):
        settings = {"cell": cell, "layers": layers, "bidirectional": both}
        yield _proof(lab, f"{backend}/{kernel}", settings)
    for kernel, option in itertools.product(_PROVABLE, OPTIONS):
        yield _proof(lab, f"{backend}/{kernel}+{option}", {"cell": "lstm", "layers": 1})


def fall_backs(lab: Lab, backend: str) -> Iterator[Outcome]:
    """Check that a layer which silently runs another kernel is detected."""
    for cell, cause in FALL_BACKS[backend]:
        asked = f"{backend}/cudnn"
        answer = lab.ask("probes:fallen_back", asked, {"cell": cell, "cause": cause})
        measured = proven(answer)
        reason = None if measured and not answer.failure else str(answer.reason)
        if measured.get("ran") == "cudnn":
            reason = "the fall-back was not detected"
        yield judged("fall_backs", f"{cell}, {cause}", asked, reason, measured)


def fit(lab: Lab, backend: str) -> Iterator[Outcome]:
    """Train a whole trial on each kernel and compare its loss with the portable kernel's."""
    portable_loss: float | None = None
    for implementation in eligible(lab, backend, layers=2):
        answer = lab.ask("image_rows", implementation, {**_ROWS, "samples": 48})
        measured = {**proven(answer), **some(answer, "loss", "val_loss", "step_ms")}
        expected: dict[str, Any] = {"loss": portable_loss}
        reason = unproven(answer)
        if portable_loss is None:
            portable_loss = measured.get("loss")
        if not reason and not abs(measured["loss"] / portable_loss - 1) <= _SAME_LOSS:
            reason = f"loss {measured['loss']:.6f} where portable has {portable_loss:.6f}"
        yield judged("fit", "image_rows", implementation, reason, measured, expected)


def numbers(lab: Lab, backend: str) -> Iterator[Outcome]:
    """Compare outputs and gradients with float64: every cell and stack, also with right padding."""
    for kernel, cell, (layers, both), lengths in itertools.product(
        _PROVABLE, lab.sizes.cells, lab.sizes.stacks, lab.sizes.lengths
    ):
        case = {"cell": cell, "layers": layers, "bidirectional": both, "lengths": lengths}
        yield from _compared(lab, "numbers", f"{backend}/{kernel}", case)


def masks(lab: Lab, backend: str) -> Iterator[Outcome]:
    """Check that batches of changing lengths have the same results with and without waiting."""
    for kernel, cell in itertools.product(_PROVABLE, lab.sizes.cells):
        arm, case = f"{backend}/{kernel}", {"cell": cell, "layers": 1, "lengths": [1]}
        if _ineligible(lab, arm, case) is not None:
            continue
        settings = {"cell": cell, "batches": lab.sizes.masked_batches}
        answer = lab.ask(MASKED_BATCHES_WORKLOAD, arm, settings, seed=3)
        measured = {**proven(answer), **some(answer, "batches", "largest_difference")}
        yield judged("masks", f"{cell}, changing lengths", arm, unproven(answer), measured)


def precisions(lab: Lab, backend: str) -> Iterator[Outcome]:
    """Compare them at lower precisions, with wider tolerances."""
    case = {"cell": "lstm", "layers": 2, "bidirectional": True, "units": 256, "lengths": None}
    for kernel, precision in itertools.product(_PROVABLE, ("tf32", "fp16", "bf16")):
        yield from _compared(lab, "precisions", f"{backend}/{kernel}+{precision}", case)


def refusals(lab: Lab, backend: str) -> Iterator[Outcome]:
    """Check that impossible trials are refused with a reason, and never run on another device."""
    portable, cudnn = f"{backend}/portable", f"{backend}/cudnn"
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
    blind = lab.ask(PRESENCE, portable, device="gpu", environ=hidden)
    yield _refused("a GPU trial without a visible GPU", portable, blind, "not_possible")
    other: Device = "cpu" if lab.device == "gpu" else "gpu"
    lab.ask(PRESENCE, portable)
    moved = lab.ask(PRESENCE, portable, device=other)
    yield _refused(f"a {other} trial in a {lab.device} process", portable, moved, "bad_request")
    on_cpu = lab.ask("synthetic", cudnn, _TINY, device="cpu")
    yield _refused("cuDNN on a CPU", cudnn, on_cpu, "not_possible")


def eligible(lab: Lab, backend: str, *, layers: int = 1, bidirectional: bool = False) -> list[str]:
    case = {"cell": "lstm", "layers": layers, "bidirectional": bidirectional}
    names = [f"{backend}/{kernel}" for kernel in _PROVABLE]
    return [name for name in names if _ineligible(lab, name, case) is None]


def some(answer: TrainerAnswer, *names: str) -> dict[str, Any]:
    return {name: answer.metrics[name] for name in names if name in answer.metrics}


def proven(answer: TrainerAnswer) -> dict[str, Any]:
    proof = answer.proof
    return {} if proof is None else {"ran": proof.ran, "evidence": proof.evidence}


def unproven(answer: TrainerAnswer) -> str:
    return answer.reason or ("no kernel was proven" if answer.proof is None else "")


def _ineligible(lab: Lab, implementation: str, case: Mapping[str, Any]) -> str | None:
    traits = LayerTraits(
        cell=case["cell"],
        layers=case["layers"],
        bidirectional=case.get("bidirectional", False),
        mask="right" if case.get("lengths") else "none",
    )
    parsed = parse_implementation(implementation)
    return ineligibility_reason(parsed, traits, lab.device, capability=lab.capability)


def _proof(lab: Lab, implementation: str, settings: Mapping[str, Any]) -> Outcome:
    predicted = _ineligible(lab, implementation, settings)
    own = implementation.partition("/")[0], implementation
    if predicted is not None and "compute capability" in predicted:  # a plan refuses these
        return Outcome("evidence", _words(settings), "skipped", *own, reason=predicted)
    answer = lab.ask("synthetic", implementation, {**_TINY, **settings})
    if predicted is None:
        measured = {**proven(answer), **some(answer, "step_ms")}
        reason = unproven(answer)
        if implementation.startswith("torch/fused") and _COMPACTED in lab.printed("torch"):
            reason = reason or "cuDNN copies the weights in every call"
        return judged("evidence", _words(settings), implementation, reason, measured)
    refused = answer.failure == "not_possible" and predicted in str(answer.reason)
    reason = "" if refused else "it was not refused for the predicted reason"
    expected, measured = {"refused": predicted}, {"refused": answer.reason}
    return judged("evidence", _words(settings), implementation, reason, measured, expected)


def _compared(
    lab: Lab, name: str, implementation: str, case: Mapping[str, Any]
) -> Iterator[Outcome]:
    if _ineligible(lab, implementation, case) is not None:
        return
    answer = lab.ask(NUMBERS, implementation, case, seed=3)
    tolerance = TOLERANCES[parse_implementation(implementation).precision]
    differences = some(answer, *ROLES)
    wrong = [role for role in ROLES if not differences.get(role, math.nan) <= tolerance]
    reason = unproven(answer) or (f"beyond {tolerance:g}: {', '.join(wrong)}" if wrong else "")
    if not reason and name == "precisions" and max(differences.values()) < _LEAST_ROUNDING:
        reason = f"within {_LEAST_ROUNDING:g} of float64: nothing was rounded"
    measured = {**proven(answer), **differences}
    yield judged(name, _words(case), implementation, reason, measured, {"at_most": tolerance})


def _refused(case: str, implementation: str, answer: TrainerAnswer, kind: str) -> Outcome:
    reason = f"expected {kind}; received {answer.failure or 'a result'}: {answer.reason}"
    measured = {"failure": answer.failure, "reason": answer.reason}
    wrong = "" if answer.failure == kind else reason
    return judged("refusals", case, implementation, wrong, measured, {"kind": kind})


def _words(case: Mapping[str, Any]) -> str:
    both = ", both directions" if case.get("bidirectional") else ""
    padded = ", padded" if case.get("lengths") else ""
    return f"{case['cell']} × {case['layers']}{both}{padded}"


def predict(lab: Lab, backend: str) -> Iterator[Outcome]:
    """Time training, evaluation and prediction in whole trials."""
    shape = lab.sizes.shapes[0]
    size, arms = shape.batch_size, eligible(lab, backend, layers=2)
    sizes = {"units": shape.units, "batch_size": size, "samples": 32 * size}
    settings = {**_ROWS, **sizes, "validation_samples": 8 * size}
    yield from _by_arm(lab, ("predict", "image_rows"), arms, settings, _PHASES)


def speed(lab: Lab, backend: str) -> Iterator[Outcome]:
    """Time passes of every kernel at the published shapes, and of a loop written by hand."""
    figures = [*_SPEED, *(["model_flops_utilization_pct"] if lab.device == "gpu" else [])]
    for shape in lab.sizes.shapes:
        arms = eligible(lab, backend, layers=shape.layers, bidirectional=shape.bidirectional)
        if shape.with_xla and backend == "tensorflow":
            arms.append("tensorflow/portable+xla")
        settings = {**shape.settings, "timed_steps": lab.sizes.timed_steps}
        expected = {"shape": settings, "source": shape.source, "published": shape.published}
        case = "speed", shape.name
        yield from _by_arm(lab, case, arms, settings, figures, expected=expected)
        if backend == "torch":
            answer = lab.ask("probes:hand_written", "torch/portable", settings)
            measured = some(answer, "step_ms")
            yield judged("speed", shape.name, BY_HAND, answer.reason, measured)


def memory(lab: Lab, backend: str) -> Iterator[Outcome]:
    """Measure the peak memory of each kernel, each in a process of its own."""
    shape = next((s for s in lab.sizes.shapes if s.name == _MEMORY_SHAPE), lab.sizes.shapes[0])
    arms = eligible(lab, backend, layers=shape.layers, bidirectional=shape.bidirectional)
    trials = [(shape.name, arms, {**shape.settings, "timed_steps": 3})]
    figures = ["peak_rss_mib"]
    if lab.device == "gpu":
        figures.append("peak_gpu_mib")
        double = {**shape.settings, "batch_size": 2 * shape.batch_size, "timed_steps": 3}
        trials.append((shape.name + TWICE_THE_BATCH, arms[-1:], double))
        rows = ({**_ROWS, "samples": samples} for samples in (64, 1_400))  # no data stays there
        trials += [(f"{row['samples']} rows of images", arms[-1:], row) for row in rows]
    for name, of, settings in trials:
        case = ("memory", name)
        yield from _by_arm(lab, case, of, settings, figures, settings, environ=os.environ)


def telemetry(lab: Lab, backend: str) -> Iterator[Outcome]:
    """Check that NVML's power, energy, temperature and memory are plausible during a trial."""
    arm, shape = eligible(lab, backend)[-1], lab.sizes.shapes[0]
    if not probe().gpus:
        yield Outcome("telemetry", shape.name, "skipped", backend, arm, "NVML sees no GPU")
        return
    settings = _busy_settings(lab, arm)
    idle = [lab.pid(other) for other in lab.backends if other != backend]
    sampler = TelemetrySampler("gpu", lab.pid(backend), Instruments(), idle)
    sampler.start()
    answer = lab.ask("synthetic", arm, settings, listen=sampler.note_event)
    recording = sampler.stop()
    metrics, kept = record(recording, time.time(), {})
    errors = [error for gpu in recording.gpu_errors for error in (*gpu.energy, *gpu.rest)]
    measured: dict[str, Any] = {**proven(answer), **metrics, **_energy(recording)}
    measured["not reported"] = recording.gpu_reason or "; ".join(errors)
    measured["processes of others"] = kept.other_gpu_processes or 0
    yield judged("telemetry", shape.name, arm, unproven(answer) or implausible(measured), measured)


def implausible(measured: Mapping[str, Any]) -> str:
    """Return the figures that are absent or impossible for a GPU at work, or an empty text."""
    names = ["energy_j by counter", "energy_j by power", "max_temperature_c"]
    names += ["mean_gpu_utilization_pct", "peak_gpu_used_mib"]
    return "; ".join(
        f"{name} is {measured.get(name, 0):g}" for name in names if not measured.get(name)
    )


def _energy(recording: Recording) -> dict[str, float]:
    """Return the first GPU's energy by its counter, and by its power, over the same time."""
    # NVML reports the mean power of the last second, and whole samples come once a second.
    gpus = [(reading.at_s, gpu) for reading in recording.inside() for gpu in reading.gpus[:1]]
    whole = [(at_s, gpu.energy_j or 0.0, gpu.power_w) for at_s, gpu in gpus if gpu.power_w]
    pairs = list(itertools.pairwise(whole))
    counter_j = sum(joules - before_j for (_, before_j, _), (_, joules, _) in pairs)
    power_j = sum((at_s - before_s) * watts for (before_s, _, _), (at_s, _, watts) in pairs)
    figures = {"energy_j by counter": counter_j, "energy_j by power": power_j}
    return figures | ({"counter/power": counter_j / power_j} if power_j else {})


def clocks(lab: Lab, backend: str) -> Iterator[Outcome]:
    """Measure a step after idle times."""
    if backend != lab.backends[0]:  # a second one would show no more
        return
    arm = f"{backend}/portable"
    answer = lab.ask("probes:after_idleness", arm, {"idle_s": lab.sizes.idle_s})
    yield judged("clocks", f"idle for {lab.sizes.idle_s} s", arm, answer.reason, answer.metrics)


def _busy_settings(lab: Lab, arm: str) -> dict[str, Any]:
    """Return settings of `synthetic` that keep the device at work for `power_s`."""
    settings = {**lab.sizes.shapes[0].settings, "layers": 1, "bidirectional": False}
    probes = [lab.ask("synthetic", arm, {**settings, "timed_steps": n}) for n in (20, 100, 500)]
    # The fastest of three: a step measured while other work slowed the machine is too long.
    step_ms = min(probe.metrics.get("step_ms", 1_000) for probe in probes)
    steps = 1_000 * lab.sizes.power_s / step_ms
    return {**settings, "timed_steps": int(np.clip(steps, 2, 1_000_000))}


def _by_arm(
    lab: Lab,
    check_and_case: tuple[str, str],
    arms: Sequence[str],
    settings: Mapping[str, Any],
    figures: Sequence[str],
    expected: Mapping[str, Any] | None = None,
    **how: Any,
) -> Iterator[Outcome]:
    """Run a trial on each arm; report its figures, and how the first arm's compare with them."""
    portable: Mapping[str, Any] = {}
    workload = "image_rows" if "dataset" in settings else "synthetic"
    for arm in arms:
        answer = lab.ask(workload, arm, settings, **how)
        measured = {**proven(answer), **some(answer, *figures)}
        portable = portable or measured
        lacking = ", ".join(figure for figure in figures if figure not in measured)
        for figure in (name for name in figures if measured.get(name) and name in portable):
            measured[f"{figure} portable/this"] = portable[figure] / measured[figure]
        reason = unproven(answer) or (f"no {lacking}" if lacking else "")
        yield judged(*check_and_case, arm, reason, measured, expected)
