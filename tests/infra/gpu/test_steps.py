"""The steps of `docs/gpu.md` as they are printed, with scripted answers in place of a GPU.

The commands of `infra.gpu` run in this process, with scripted trainers. The commands `rnnsweep` run
as a user types them: in processes of their own, on a simulated H100 (`scripted_trainers`).
"""

import os
import re
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from infra.gpu import proofs
from infra.gpu.__main__ import main
from infra.gpu.conclusion import ExitCode
from infra.gpu.lab import Lab
from orchestrator.execution.trainer_answers import TrainerAnswer
from tests.integration.sweeping import Home, new_home
from tests.nvml.simulated import SimulatedGpu, SimulatedNvml, library
from workloads.eligibility import ineligibility_reason
from workloads.implementations import parse_implementation
from workloads.layer_traits import LayerTraits
from workloads.protocol import KernelProof, PhaseBegan, PhaseEnded

PAGE = Path(__file__).parents[3] / "docs/gpu.md"
DEFAULT_BACKENDS = ["--backends", "torch", "jax"]
H100 = SimulatedGpu(name="NVIDIA H100", power_w=400.0, compute_capability=(9, 0))


def printed_commands() -> Iterator[tuple[str, list[str]]]:
    """Yield the number of each step, and the words of each of its commands."""
    rows = re.findall(r"^\| (\d+) \| (.*?) \|", PAGE.read_text(), re.MULTILINE)
    for number, commands in rows:
        for command in re.findall(r"`([^`]*)`", commands):
            yield number, shlex.split(command)


SHORT = "gpu-checks"
COMMANDS = list(printed_commands())
STEPS = [(number, words[1:]) for number, words in COMMANDS if words[0] == SHORT]
RNNSWEEP = ".venv-cuda13/bin/rnnsweep"
SWEEP_STEPS = [(number, words[1:]) for number, words in COMMANDS if words[0] == RNNSWEEP]


class ScriptedGpu:
    """Answers of trainers whose GPU is in order."""

    def __init__(self, **changes: float) -> None:
        self.changes = changes  # metrics that are not as they should be

    def __call__(
        self,
        lab: Lab,
        workload: str,
        implementation: str,
        settings: Mapping[str, Any] | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        listen: Callable[[Any], object] = lambda event: None,
        device: str = "gpu",
        seed: int = 0,
    ) -> TrainerAnswer:
        lab.expect_time()
        settings, asked = settings or {}, parse_implementation(implementation)
        if workload == proofs.PRESENCE:
            if device != lab.device:
                return TrainerAnswer("another device", "bad_request")
            if environ is not None and environ.get("CUDA_VISIBLE_DEVICES") == "-1":
                return TrainerAnswer("it sees none", "not_possible")
            return TrainerAnswer(facts={"devices": "NVIDIA H100", asked.backend: "1.0"})
        if workload == "probes:fallen_back":
            ran = KernelProof("cudnn", "portable", "scripted")
            return TrainerAnswer("ran portable, not cudnn", proof=ran)
        if workload in ("synthetic", "image_rows"):
            traits = LayerTraits(
                cell=settings.get("cell", "lstm"),
                layers=settings.get("layers", 1),
                bidirectional=settings.get("bidirectional", False),
            )
            reason = ineligibility_reason(asked, traits, device, capability=9.0)  # type: ignore[arg-type]
            if reason is not None:
                return TrainerAnswer(reason, "not_possible")
        if settings.get("timed_steps", 0) > 1_000:  # work for `power_s`
            listen(PhaseBegan("train", time.monotonic()))
            time.sleep(2.5)
            listen(PhaseEnded("train", time.monotonic(), seconds=2.5))
        metrics = {**self.metrics(implementation, settings, environ), **self.changes}
        text = asked.kernel_text
        return TrainerAnswer(metrics=metrics, proof=KernelProof(text, text, "scripted"))

    @staticmethod
    def metrics(
        implementation: str, settings: Mapping[str, Any], environ: object
    ) -> dict[str, float]:
        asked = parse_implementation(implementation)
        rounding = 2e-7 if asked.precision == "float32" else 1e-3
        times = ("step_ms", "step_ms_median", "forward_ms", "evaluate_s", "predict_s")
        per_sample_mib = 4.0 if asked.backend == "jax" else 1.0
        idle = settings.get("idle_s", ())
        return {
            **dict.fromkeys(proofs.ROLES, rounding),
            **dict.fromkeys((*times, "predict_sample_ms", "model_flops_utilization_pct"), 2.0),
            "batches": 300.0,
            "largest_difference": 0.0,
            "loss": 2.0,
            "val_loss": 2.0,
            "peak_rss_mib": 900.0,
            "peak_gpu_mib": 50.0 + per_sample_mib * settings.get("batch_size", 0),
            **{f"{idle_s:g} s, cold, ms": 5.0 for idle_s in idle},
            **{f"{idle_s:g} s, warmed, ms": 1.0 for idle_s in idle},
        }


@pytest.fixture
def gpu_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[ScriptedGpu], None]:
    def use(script: ScriptedGpu) -> None:
        SimulatedNvml([H100]).in_this_process(monkeypatch, tmp_path)
        monkeypatch.setattr("infra.gpu.checks.is_installed", lambda _: True)
        monkeypatch.setattr("workloads.eligibility.is_installed", lambda _: True)
        # However late a busy machine takes a sample, there are several while the GPU works.
        for name, value in (("WHOLE_S", 0.2), ("REST", 1.0)):
            monkeypatch.setattr(f"orchestrator.execution.telemetry.sampler._{name}", value)
        monkeypatch.setattr(Lab, "__enter__", lambda lab: lab)
        monkeypatch.setattr(Lab, "pid", lambda *_: os.getpid())

        def ask(lab: Lab, *words: Any, **named: Any) -> TrainerAnswer:
            return script(lab, *words, **named)

        monkeypatch.setattr(Lab, "ask", ask)

    return use


def test_the_page_has_ten_steps_whose_commands_are_all_run_here() -> None:
    assert sorted({int(number) for number, _ in COMMANDS}) == list(range(1, 11))
    assert len(STEPS) + len(SWEEP_STEPS) == len(COMMANDS)
    (means,) = re.findall(rf"`{SHORT}` is short for\s`([^`]*)`", PAGE.read_text())
    assert shlex.split(means)[1:] == ["-m", "infra.gpu", *DEFAULT_BACKENDS]


@pytest.mark.parametrize(
    ("number", "words"),
    STEPS,
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_each_step_ends_as_documented(
    gpu_machine: Callable[[ScriptedGpu], None],
    number: str,
    words: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    gpu_machine(ScriptedGpu())
    code = main([*DEFAULT_BACKENDS, *words])
    assert code == ExitCode.IN_ORDER, (number, capsys.readouterr().err[-3000:])


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = new_home(tmp_path)
    yield home
    home.expect_nothing_running()


@pytest.mark.full
@pytest.mark.parametrize(
    ("number", "words"),
    SWEEP_STEPS,
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_each_command_of_rnnsweep_ends_as_documented(
    home: Home, tmp_path: Path, number: str, words: list[str]
) -> None:
    environ = SimulatedNvml([H100]).environment(tmp_path)
    environ |= {"LD_PRELOAD": str(library()), "RAY_LD_PRELOAD_ON_WORKERS": "1"}
    environ["RNNSWEEP_SIMULATED_CPUS"] = "2"
    environ["PYTHONPATH"] = str(Path(__file__).parent / "scripted_trainers")
    configs = [{"units": 512, "features": 512, "batch_size": size} for size in (32, 64)]
    shorter = ["--set", f"search.configs={configs}"] if words[0] == "run" else []
    done = home.run(*words, *shorter, **environ).expect(0)
    if words[0] == "doctor":
        sees = re.findall(r"^ok +(\w+) +2\.0 with Keras \S+ sees NVIDIA H100$", done.out, re.M)
        assert sorted(sees) == ["jax", "torch"]
        return
    assert "Asking torch, jax for the GPU" in done.err
    report = home.report("deepbench-rnn")
    trials = [(one["trial"]["arm"], one["outcome"]) for one in home.finished("deepbench-rnn")]
    assert {outcome["status"] for _, outcome in trials} == {"complete"}
    arms = Counter(
        (arm["implementation"].partition("/")[0], outcome["environment"]["devices"])
        for arm, outcome in trials
    )
    assert arms[("torch", "NVIDIA H100")] == 4 * len(configs)
    assert arms[("jax", "NVIDIA H100")] == 3 * len(configs)
    assert min(arms[("torch", "CPU")], arms[("jax", "CPU")]) >= len(configs)
    blind = {one["arm"]["implementation"] for one in report["impossible"]}
    assert "tensorflow/portable" in blind, "it is not installed there"


@pytest.mark.parametrize("changes", [{"last": 0.3}, {"by_bias": float("nan")}])
def test_numbers_that_differ_from_float64_do_not_end_with_zero(
    gpu_machine: Callable[[ScriptedGpu], None], changes: dict[str, float]
) -> None:
    gpu_machine(ScriptedGpu(**changes))
    assert main(["--only", "numbers"]) == ExitCode.FAILED
