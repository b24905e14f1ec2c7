"""Import a user's own workload before anything runs for it, in a process of its own.

An own model is built there once on each backend, so that what cannot run is known at plan time.
"""

import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path

from pydantic import ValidationError

from orchestrator.core.errors import Refusal
from orchestrator.core.text import duration, joined
from orchestrator.execution.inspection_cache import remembered
from orchestrator.execution.trainer_process import trainer_command, trainer_environment
from orchestrator.hardware import HardwareClass
from orchestrator.planning.plan import make_plan
from orchestrator.spec import SweepSpec, load_spec
from orchestrator.spec.model_probes import model_probes, varied_settings
from orchestrator.spec.reading import refuse_file
from orchestrator.spec.spec_errors import ProblemAtPath, SpecError, nearest, stated
from workloads.backends.registry import backends
from workloads.eligibility import is_installed
from workloads.failures import LESS_MEMORY, SAME_DATA
from workloads.implementations import Implementation, parse_implementation
from workloads.metrics import COST_METRICS, EPOCH_METRICS, OUTSIDE_OBJECTIVES, sliced_objectives
from workloads.model_facts import (
    ANSWER_ADAPTER,
    Inspection,
    InspectionAnswer,
    InspectionRequest,
    ModelFacts,
    ModelFault,
)
from workloads.own_code import (
    PACKAGES,
    code_folders,
    find_package,
    packages_of,
    read_code,
    training_on_import,
)
from workloads.registry import find_workload

_LIMIT_S = 120.0
_MODEL_LIMIT_S = 900.0
"""It includes the time in which a user's `load` reads or computes all of the data."""

_SIGN_S = 30.0
"""How often a check says that it still works."""

Refuse = Callable[[list[ProblemAtPath]], SpecError]
"""Returns the error with the locations of these problems in the spec's file."""

_LACKING = 4


class WorkloadUnusable(Refusal):
    """A user's own workload cannot be imported, or is no function."""

    def __init__(self, workload: str, reason: str) -> None:
        super().__init__(f"workload: {workload} cannot be used: {reason}")


def _is_installed(implementation: Implementation) -> bool:
    """Return True if the backend is installed, or is a name that the workload defines."""
    backend = backends().get(implementation.backend)
    return backend is None or is_installed(backend.package)


class OwnModelUnusable(Refusal):
    """A user's own model or its data cannot be used, on any backend."""

    def __init__(self, workload: str, reason: str) -> None:
        super().__init__(f"model: {workload} cannot be used\n  {reason}")


def check_spec_file(
    path: Path,
    overrides: Sequence[str],
    *,
    on_cluster: bool,
    tell: Callable[[str], None] | None = None,
    expect_free: Callable[[SweepSpec], object] = lambda spec: None,
    hardware: Sequence[HardwareClass] | None = None,
) -> SweepSpec:
    """Read a spec file, and check it as `check_user_code` does.

    Building an own model takes seconds: `tell` gets a line that says so, and `expect_free` raises
    before it if the sweep cannot start anyway. Raise `SpecError` or another `Refusal` with the
    location and the next step.
    """
    spec = load_spec(path, overrides, import_classes=True)
    expect_free(spec)
    if spec.model is not None and tell is not None:
        tell(f"{spec.name}: checking {spec.model} on each backend (10 to 60 s the first time)")
    refuse = partial(refuse_file, path, overrides)
    return check_user_code(spec, on_cluster=on_cluster, refuse=refuse, tell=tell, hardware=hardware)


def check_user_code(
    spec: SweepSpec,
    *,
    on_cluster: bool,
    refuse: Refuse,
    tell: Callable[[str], None] | None = None,
    hardware: Sequence[HardwareClass] | None = None,
) -> SweepSpec:
    """Return the spec, with the facts of its own model if it has one.

    The model is built for the implementations that can run on `hardware`; for all of them if the
    hardware is not known. Other workloads of the user's are imported. `tell` gets a line, before
    the import, for code that seems to train while it is imported, and one for each switch of the
    process that it changes.
    Raise `WorkloadUnusable` or `OwnModelUnusable` if the code cannot be used, and what `refuse`
    returns if the spec does not fit the model.
    """
    tell = tell or (lambda _: None)
    if places := list(training_on_import(spec.workload_name)):
        tell(
            f"{spec.name}: {', '.join(places)} seems to train a model when the file is imported,"
            ' which each trainer does: remove it, or put it under if __name__ == "__main__":'
        )
    if spec.model is None:
        expect_importable(spec, on_cluster=on_cluster)
        return spec
    name = spec.workload_name
    if on_cluster and not read_code(name):  # the nodes have it
        return spec
    _expect_one_folder(name)
    implementations = spec.arms.implementations
    if hardware is not None:
        possible = {arm.implementation for arm in make_plan(spec, hardware).arms}
        implementations = tuple(each for each in implementations if each in possible)
        if not implementations:
            return spec  # its plan has the reasons
    inspections = inspect_models(spec, implementations, tell)
    faults = {b: i for b, i in inspections.items() if isinstance(i, ModelFault)}
    facts = {b: i for b, i in inspections.items() if isinstance(i, ModelFacts)}
    if on_cluster and not facts and all(fault.kind == "lacking" for fault in faults.values()):
        return spec
    for fault in faults.values():
        if fault.setting is not None and fault.setting in spec.search.space:
            path = ("search", "space", fault.setting)
            raise refuse([stated(path, "the data depend on it, so it must be fixed", fault.text)])
    refused = [fault.text for fault in faults.values() if fault.kind == "refused"]
    if refused or (faults and not facts):
        raise OwnModelUnusable(name, next(iter(refused), next(iter(faults.values())).text))
    _expect_equal_data(name, facts)
    for note in dict.fromkeys(note for fact in facts.values() for note in fact.import_notes):
        tell(f"{spec.name}: {note}")
    checked = spec.with_inspections(inspections)
    if problems := list(_problems(checked)):
        raise refuse(problems)
    return checked


def inspect_models(
    spec: SweepSpec, implementations: Iterable[str], tell: Callable[[str], None]
) -> Mapping[str, Inspection]:
    """Build the own model of a spec on each backend of implementations that is installed here.

    `tell` gets a line now and then with the backends that are not done: a batch of a large model
    takes minutes.
    """
    by_backend: dict[str, list[str]] = {}
    for text in implementations:
        implementation = parse_implementation(text)
        if _is_installed(implementation):
            by_backend.setdefault(implementation.backend, []).append(text)
    probes = model_probes(spec)
    requests = {
        backend: InspectionRequest(
            spec.workload_name,
            tuple(of_backend),
            tuple(probe.settings for probe in probes),
            varied_settings(spec),
            spec.measure.of,
        )
        for backend, of_backend in by_backend.items()
    }
    began_s = time.monotonic()
    with ThreadPoolExecutor() as threads:
        asked = {threads.submit(_inspect, each): backend for backend, each in requests.items()}
        while at_work := wait(asked, timeout=_SIGN_S).not_done:
            names = joined([backend for answer, backend in asked.items() if answer in at_work])
            so_far = duration(time.monotonic() - began_s)
            tell(f"{spec.name}: still trying a batch on {names}, {so_far} so far")
    return {backend: answer.result() for answer, backend in asked.items()}


def _inspect(request: InspectionRequest) -> Inspection:
    """Ask a child process of the request's backend, unless the cache has its answer."""
    environment = trainer_environment(parse_implementation(request.implementations[0]), "cpu")
    return remembered(request, environment, partial(_ask_child, request, environment)).found


def _ask_child(request: InspectionRequest, environment: Mapping[str, str]) -> InspectionAnswer:
    command = trainer_command(code_folders(), "--inspect")
    try:
        done = subprocess.run(
            command,
            env=environment,
            input=request.to_json(),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_MODEL_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        text = f"building it and loading its data took more than {_MODEL_LIMIT_S:.0f} s"
        return InspectionAnswer(ModelFault("failed", text))
    try:
        return ANSWER_ADAPTER.validate_json(done.stdout)
    except ValidationError:
        said = "\n".join(done.stderr.strip().splitlines()[-3:])
        if done.returncode == -signal.SIGKILL:
            advice = (
                "its process was killed while it built the model or loaded the data, probably for"
                f" lack of memory: {LESS_MEMORY}, or load fewer samples"
            )
        else:
            advice = (
                f"its process ended with exit status {done.returncode} while it built the model or"
                " loaded the data: raise an error there instead, to see its line here"
            )
        fault = ModelFault("failed", f"{advice}{said and f'. It said: {said}'}")
        return InspectionAnswer(fault)


def _expect_one_folder(name: str) -> None:
    """Refuse functions of two folders: the code of a sweep is copied to nodes from one."""
    packages = [package for package in packages_of(name) if package not in PACKAGES]
    paths = [path for path in map(find_package, packages) if path is not None]
    folders = dict.fromkeys(str(path.parent) for path in paths)
    if len(folders) > 1:
        raise Refusal(
            f"model: {name}: its functions are in different folders"
            f" ({' and '.join(folders)}). Move them into one, because the code is copied from there"
        )


def _expect_equal_data(name: str, facts: Mapping[str, ModelFacts]) -> None:
    """Refuse data that differ from backend to backend: the arms could not be compared."""
    types = {backend: fact.data_types for backend, fact in facts.items()}
    if len(set(types.values())) > 1:
        common = set.intersection(*map(set, types.values()))
        shown = "; ".join(
            f"{backend}: {', '.join(text for text in texts if text not in common)}"
            for backend, texts in types.items()
        )
        raise OwnModelUnusable(
            name,
            f"the types of its data differ between backends ({shown}): let load convert them, such"
            " as by numpy.asarray(y, 'int32')",
        )
    digests = {backend: fact.data_digest for backend, fact in facts.items()}
    if len(set(digests.values())) > 1:
        shown = "; ".join(f"{backend}: {digest}" for backend, digest in digests.items())
        raise OwnModelUnusable(
            name,
            f"its data differ between backends ({shown}): {SAME_DATA}",
        )


def _problems(spec: SweepSpec) -> Iterator[ProblemAtPath]:
    """Report objectives, goals and pruners on metrics that the own model does not have."""
    learned = spec.learning_metrics
    assert learned is not None  # the model has been inspected
    usual = find_workload(spec.workload_name).metrics
    times = [name for name in usual if name not in EPOCH_METRICS]
    known = (
        *learned,
        *times,
        *sliced_objectives(spec.measure.of),
        *OUTSIDE_OBJECTIVES,
        *COST_METRICS,
    )
    hint = "" if spec.data else "random data give times only: name a function that loads your data"
    for name in spec.search.objectives:
        if name not in known:
            why_none = "only predictions are timed" if spec.data else "the data are random"
            of_model = ", ".join(learned) or f"none, because {why_none}"
            time = "step_ms" if spec.measure.of == "train" else "predict_ms"
            expected = f"a metric of {spec.model} ({of_model}), or of every trial (such as {time})"
            path = ("search", "objectives", name)
            yield ProblemAtPath(path, expected, repr(name), hint or nearest(name, known))
    if spec.search.pruner and not {*spec.search.objectives} <= {*learned}:
        expected = f"a metric of each epoch ({', '.join(learned)}) as objective"
        received = ", ".join(spec.search.objectives)
        yield ProblemAtPath(("search", "pruner"), expected, received, hint)
    if spec.settings.get("target_accuracy") is not None and "val_accuracy" not in learned:
        text = "needs a model with the metric accuracy"
        if learned:
            text += f"; yours has {', '.join(learned)}"
        yield stated(("settings", "target_accuracy"), text, hint)


def expect_importable(spec: SweepSpec, *, on_cluster: bool) -> None:
    """Import a user's own workload in a child process; raise `WorkloadUnusable` if that fails."""
    # On a cluster, its packages may be on the nodes alone: only the code must be here.
    if find_workload(spec.workload_name).is_built_in or (
        on_cluster and not read_code(spec.workload_name)
    ):
        return
    parsed = (parse_implementation(i) for i in spec.arms.implementations)
    installed = (i for i in parsed if _is_installed(i))
    command = trainer_command(code_folders(), "--check", spec.workload_name)
    try:
        done = subprocess.run(
            command,
            env=trainer_environment(next(installed, None), "gpu"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise WorkloadUnusable(
            spec.workload_name, f"importing it took more than {_LIMIT_S:.0f} s"
        ) from None
    if done.returncode == 0 or (on_cluster and done.returncode == _LACKING):
        return
    reason = done.stdout.strip() or "\n".join(done.stderr.strip().splitlines()[-1:])
    ended = f"its import ended with exit status {done.returncode}"
    raise WorkloadUnusable(spec.workload_name, reason or ended)
