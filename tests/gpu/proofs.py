"""The checks: kernels, their numbers and refusals; then times, memory and power."""

import itertools
import os
import statistics
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from orchestrator.diagnostics.trainer_answers import TrainerAnswer
from orchestrator.execution.telemetry import Instruments, Sampler, record
from orchestrator.hardware import probe
from tests.gpu.lab import Lab
from tests.gpu.outcomes import Outcome, judged
from workloads.eligibility import LayerTraits, ineligibility_reason
from workloads.implementations import KERNELS, OPTIONS, Precision, parse_implementation
from workloads.protocol import Device

TOLERANCES: Mapping[Precision, float] = {"float32": 2e-5, "tf32": 1e-2, "fp16": 1e-2, "bf16": 5e-2}
"""For outputs and gradients, relative to the largest value of each. Two layers in both directions
differ by 4e-7, 2e-3 (fp16) and 1e-2 (bf16) on a CPU; TF32 rounds as fp16 does. TF32 where float32
was requested shows as some 1e-4, a gate in the wrong place as some 1e-1."""

_LEAST_ROUNDING = 3e-5
"""A lower precision that differs by less, at 256 units, did not round: float32 ran."""

PRESENCE = "workloads.tasks.peak_rates:report_devices"
_TINY = {"units": 16, "features": 8, "sequence_length": 6, "batch_size": 4, "timed_steps": 2}
_ROLES = ("outputs", "last", "by_inputs", "by_kernel", "by_recurrent_kernel", "by_bias")
_SAME_LOSS = 1e-3
_MEMORY_SHAPE = "char_rnn"
_SPEED = ("step_ms", "step_ms_median", "forward_ms", "model_flops_utilization_pct")


def evidence(lab: Lab, backend: str) -> Iterator[Outcome]:
    """Check that every kernel, cell and option runs as requested, or is refused as predicted."""
    stacks = ((1, False), (2, True))
    for kernel, cell, (layers, both) in itertools.product(KERNELS, lab.sizes.cells, stacks):
        settings = {"cell": cell, "layers": layers, "bidirectional": both}
        yield _proof(lab, f"{backend}/{kernel}", settings)
    for kernel, option in itertools.product(KERNELS, OPTIONS):
        yield _proof(lab, f"{backend}/{kernel}+{option}", {"cell": "lstm", "layers": 1})


def fit(lab: Lab, backend: str) -> Iterator[Outcome]:
    """Train a whole trial on each kernel and compare its loss with that of the portable one."""
    settings = {
        **{"dataset": "digits", "epochs": 1},
        **{"samples": 48, "validation_samples": 16},
        **{"units": 16, "layers": 2, "dropout": 0.0, "timed_steps": 2},
    }
    portable_loss: float | None = None
    for implementation in eligible(lab, backend, layers=2):
        answer = lab.ask("image_rows", implementation, settings)
        measured = {**proven(answer), **some(answer, "loss", "val_loss", "step_ms")}
        expected: dict[str, Any] = {"loss": portable_loss}
        reason = unproven(answer)
        if portable_loss is None:
            portable_loss = measured.get("loss")
        elif not reason and abs(measured["loss"] / portable_loss - 1) > _SAME_LOSS:
            reason = f"loss {measured['loss']:.6f} where portable has {portable_loss:.6f}"
        yield judged("fit", "image_rows", implementation, reason, measured, expected)


def numbers(lab: Lab, backend: str) -> Iterator[Outcome]:
    """Compare outputs and gradients with float64: every cell and stack, also with right padding."""
    for kernel, cell, (layers, both), lengths in itertools.product(
        KERNELS, lab.sizes.cells, lab.sizes.stacks, lab.sizes.lengths
    ):
        case = {"cell": cell, "layers": layers, "bidirectional": both, "lengths": lengths}
        yield from _compared(lab, "numbers", f"{backend}/{kernel}", case)


def precisions(lab: Lab, backend: str) -> Iterator[Outcome]:
    """Compare them at lower precisions, with wider tolerances."""
    case = {"cell": "lstm", "layers": 2, "bidirectional": True, "units": 256, "lengths": None}
    for kernel, precision in itertools.product(KERNELS, ("tf32", "fp16", "bf16")):
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
    names = [f"{backend}/{kernel}" for kernel in KERNELS]
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
        return judged("evidence", _words(settings), implementation, unproven(answer), measured)
    refused = answer.failure == "not_possible" and predicted in str(answer.reason)
    reason = "" if refused else "it was not refused for the predicted reason"
    expected, measured = {"refused": predicted}, {"refused": answer.reason}
    return judged("evidence", _words(settings), implementation, reason, measured, expected)


def _compared(
    lab: Lab, name: str, implementation: str, case: Mapping[str, Any]
) -> Iterator[Outcome]:
    if _ineligible(lab, implementation, case) is not None:
        return
    answer = lab.ask("probes:numbers", implementation, case, seed=3)
    tolerance = TOLERANCES[parse_implementation(implementation).precision]
    measured = some(answer, *_ROLES)
    wrong = [role for role, difference in measured.items() if difference > tolerance]
    reason = answer.reason or (f"beyond {tolerance:g}: {', '.join(wrong)}" if wrong else "")
    if not reason and name == "precisions" and max(measured.values()) < _LEAST_ROUNDING:
        reason = f"within {_LEAST_ROUNDING:g} of float64: nothing was rounded"
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


def speed(lab: Lab, backend: str) -> Iterator[Outcome]:
    """Time passes of every kernel at the published shapes, and of a loop written by hand."""
    for shape in lab.sizes.shapes:
        arms = eligible(lab, backend, layers=shape.layers, bidirectional=shape.bidirectional)
        if shape.with_xla and backend == "tensorflow":
            arms.append("tensorflow/portable+xla")
        portable: Mapping[str, Any] = {}
        for arm in arms:
            settings = {**shape.settings, "timed_steps": lab.sizes.timed_steps}
            answer = lab.ask("synthetic", arm, settings)
            measured = {**proven(answer), **some(answer, *_SPEED)}
            portable = portable or measured
            measured |= _ratios(portable, measured, "step_ms", "forward_ms")
            expected = {"shape": settings, "source": shape.source, "published": shape.published}
            yield judged("speed", shape.name, arm, unproven(answer), measured, expected)
        if backend == "torch":
            settings = {**shape.settings, "timed_steps": lab.sizes.timed_steps}
            answer = lab.ask("probes:hand_written", "torch/portable", settings)
            measured, by_hand = some(answer, "step_ms"), "torch/by hand"
            yield judged("speed", shape.name, by_hand, answer.reason or "", measured)


def memory(lab: Lab, backend: str) -> Iterator[Outcome]:
    """Measure the peak memory of each kernel, each in a process of its own."""
    shape = next((s for s in lab.sizes.shapes if s.name == _MEMORY_SHAPE), lab.sizes.shapes[0])
    arms = eligible(lab, backend, layers=shape.layers, bidirectional=shape.bidirectional)
    settings = {**shape.settings, "timed_steps": 3}
    portable: Mapping[str, Any] = {}
    for arm in arms:
        answer = lab.ask("synthetic", arm, settings, environ=os.environ)
        measured = some(answer, "peak_gpu_mib", "peak_rss_mib")
        portable = portable or measured
        measured |= _ratios(portable, measured, "peak_gpu_mib", "peak_rss_mib")
        is_missing = lab.device == "gpu" and "peak_gpu_mib" not in measured
        reason = unproven(answer) or ("no peak_gpu_mib" if is_missing else "")
        yield judged("memory", shape.name, arm, reason, measured)


def telemetry(lab: Lab, backend: str) -> Iterator[Outcome]:
    """Check that NVML's power, energy, temperature and memory are plausible during a trial."""
    arm, shape = eligible(lab, backend)[-1], lab.sizes.shapes[0]
    settings: dict[str, Any] = {**shape.settings, "layers": 1, "bidirectional": False}
    first = lab.ask("synthetic", arm, {**settings, "timed_steps": 20})
    if first.reason:
        yield judged("telemetry", shape.name, arm, first.reason, {})
        return
    settings["timed_steps"] = int(
        np.clip(1_000 * lab.sizes.power_s / first.metrics["step_ms"], 2, 1_000_000)
    )
    if not probe().gpus:
        yield Outcome("telemetry", shape.name, "skipped", backend, arm, "NVML sees no GPU")
        return
    sampler = Sampler("gpu", lab.pid(backend), Instruments())
    sampler.start()
    answer = lab.ask("synthetic", arm, settings, listen=sampler.take)
    recording = sampler.stop()
    measured: dict[str, Any] = {**record(recording, time.time(), {})[0]}
    inside = [gpu for sample in recording.inside() for gpu in sample.gpus[:1]]
    watts = [gpu.power_w for gpu in inside if gpu.power_w is not None]
    measured |= {"samples": len(inside), "window_s": recording.timed_s}
    errors = [str(error) for gpu in recording.gpu_errors for error in gpu.values()]
    measured["not reported"] = recording.gpu_reason or "; ".join(errors)
    if watts:
        measured["energy_j by power"] = statistics.fmean(watts) * recording.timed_s
    reason = unproven(answer) or implausible(measured)
    yield judged("telemetry", shape.name, arm, reason, measured)


def implausible(measured: Mapping[str, Any]) -> str:
    """Return the figures that are impossible for a GPU at work, or an empty text."""
    names = ["energy_gpu_j", "energy_j by power", "mean_power_w", "max_temperature_c"]
    names += ["mean_gpu_utilization_pct", "peak_gpu_used_mib"]
    wrong = [f"{name} is {measured[name]:g}" for name in names if measured.get(name, 1.0) <= 0]
    counted, integrated = (
        measured.get(name, 0.0) for name in ("energy_gpu_j", "energy_j by power")
    )
    if counted and integrated and not 0.5 <= counted / integrated <= 2:
        wrong.append(f"energy is {counted:.0f} J by the counter, {integrated:.0f} J by power")
    return "; ".join(wrong)


def _ratios(
    portable: Mapping[str, Any], measured: Mapping[str, Any], *names: str
) -> dict[str, float]:
    present = [name for name in names if measured.get(name) and name in portable]
    return {f"{name} portable/this": portable[name] / measured[name] for name in present}
