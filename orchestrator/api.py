"""The Python interface: run sweeps, read what they measured, choose, compare.

Users write `import rnnsweep`, which exports these functions. Only they are stable; the other
modules of `orchestrator` may change. Importing this module is quick.

A `sweep` is the name of a sweep or, except in `read_sweep`, a record. A name means the latest
generation; `quickstart#1` is the first one. `tracking_uri` is the MLflow store, by default the one
that the commands use. Names end with their unit (`_s`, `_ms`, `_mib`, `_j`, `_pct`). Times of day
are in UTC: seconds since the epoch in records, timezone-aware in data frames.

Errors that a user can fix are instances of `rnnsweep.Refusal`. Its subclasses:

- `SpecError`: the problems of a spec
- `Incomparable`: the sweep has trials of another spec or other code
- `FunctionUnusable`: a function cannot be sent to the trainers
- `ClusterError`: the cluster cannot be reached, or was lost
- `SweepNotFound`: there is no such sweep
- `TrackingError`: the store cannot be used
- `NotRecorded`: trials are in the journal, but not yet in the store
- `BaselineError`, `InvalidSide`, `QueryError`: a wrong argument of `report`, `compare`, `query`
"""

# ruff: noqa: PLC0415

from __future__ import annotations

import functools
import json
import logging
import numbers
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from workloads.own_code import code_in

if TYPE_CHECKING:
    import pandas as pd

    from orchestrator.core.records import SweepRecord
    from orchestrator.core.start_command import StartCommand
    from orchestrator.report.best.chosen import BestConfig
    from orchestrator.report.compare.shown import ShownChanges
    from orchestrator.report.compare.sides import Side
    from orchestrator.report.shown import Report
    from orchestrator.scheduling.sweep import RunResult
    from orchestrator.spec import SweepSpec

__all__ = ["best", "compare", "query", "read_sweep", "report", "run_sweep"]

_log = logging.getLogger("rnnsweep")

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def _without(
    **former: str,
) -> Callable[[Callable[_Arguments, _Result]], Callable[_Arguments, _Result]]:
    """Refuse former arguments of a function, each with what replaces it."""

    def refusing(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
        @functools.wraps(function)
        def refuse(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
            for name in former.keys() & kwargs.keys():
                raise TypeError(f"{function.__name__}: no argument {name}. Instead: {former[name]}")
            return function(*args, **kwargs)

        return refuse

    return refusing


def run_sweep(  # noqa: PLR0913
    spec: str | Path | Mapping[str, Any],
    overrides: Mapping[str, Any] | None = None,
    *,
    home: str | Path | None = None,
    tracking_uri: str | None = None,
    address: str | None = None,
    fresh: bool = False,
    retry_failed: bool = False,
    same_code: bool = False,
    take_over: bool = False,
    wait_quiet_s: float | None = None,
    progress: bool = True,
) -> RunResult:
    """Run or resume a sweep, as `rnnsweep run` does.

    Progress goes to the logger `rnnsweep`: finished trials as INFO, warnings as WARNING. Ctrl-C or
    SIGTERM stops the sweep cleanly if this is called in the main thread. Before the first trial, or
    when it comes twice, it raises `KeyboardInterrupt`.

    Args:
        spec: The path of a file, the name of a shipped sweep (`quickstart`), or a mapping with the
            same keys. `workload`, `model`, `data` and `callbacks` may be functions, also of a
            notebook or a script: these are sent to the trainers by value, with the globals that
            they use.
        overrides: Values that replace values of the spec, by dotted key: `{"settings.epochs": 2}`.
        home: The folder that keeps sweeps. The default is RNNSWEEP_HOME, or `./rnnsweep-data`.
        tracking_uri: The MLflow store.
        address: A Ray cluster, as HOST:PORT. The default is this machine.
        fresh: Start a new generation; keep existing trials.
        retry_failed: Run failed trials again.
        same_code: Resume even though the code of your own workload has changed.
        take_over: Take the sweep over from another machine.
        wait_quiet_s: Wait up to this time until other processes leave the CPUs idle.
        progress: Print progress to stderr if the program has not set up logging.

    Returns:
        The result, which a notebook shows as the answer with its table. `record` has all finished
        trials; its `state` is `complete` or `stopped` (the same call resumes it). `stopped` is
        None, or has the `reason`, which is empty after a signal. `refused` has the trials that
        MLflow rejected: their keys, with reasons. `warnings` name kept models that are not in
        MLflow yet.

    Raises:
        Refusal: Nothing was run, or the cluster or the store failed (see the module for the
            subclasses). Finished trials are in the journal.
        KeyboardInterrupt: A signal came before the first trial, or twice.

    Example, with a function `train(trial)` that returns `{"loss": …}`:
        >>> result = run_sweep({
        ...     "name": "example",
        ...     "workload": train,  # or "mine:train", a function of the module mine
        ...     "search": {"configs": [{"units": 8}, {"units": 16}]},
        ...     "arms": {"implementations": ["python/plain"], "hardware": ["cpu"]},
        ... })
        >>> result.record.state
        'complete'
        >>> [(trial.config["units"], trial.metrics["loss"]) for trial in result.record.trials]
        [(8, 0.125), (16, 0.0625)]
    """
    from orchestrator.cluster.connection import this_machine
    from orchestrator.core.stop_signal import Stopped, StopSignal
    from orchestrator.execution.workload_check import check_user_code
    from orchestrator.hardware import classify
    from orchestrator.scheduling import sweep
    from orchestrator.scheduling.watcher import Watcher
    from orchestrator.spec.reading import refuse_object
    from orchestrator.storage.home import SweepFolder, sweep_home
    from orchestrator.storage.tracking.trackers import tracking_uri as default_store

    _expect("spec", spec, (str, os.PathLike, Mapping), "a path or a mapping")
    _expect("overrides", overrides, (Mapping, type(None)), 'a mapping, {"settings.epochs": 2}')
    home_folder = sweep_home() if home is None else Path(home).expanduser().resolve()
    store = tracking_uri or default_store(home_folder, os.environ)
    options = sweep.RunOptions(
        home_folder,
        store,
        address,
        fresh=fresh,
        retry_failed=retry_failed,
        same_code=same_code,
        take_over=take_over,
        wait_quiet_s=wait_quiet_s,
        start=_start(spec, overrides or {}, home=home, tracking_uri=tracking_uri, address=address),
    )
    stop = StopSignal(lambda: _log.warning("stopping"), _interrupt)
    with ExitStack() as stack:
        checked = _checked(spec, overrides, stack)
        SweepFolder(home_folder, checked.name).expect_unlocked()  # before a model is built
        checked = check_user_code(
            checked,
            on_cluster=address is not None,
            refuse=partial(refuse_object, "the spec", checked),
            tell=_log.warning,
            hardware=classify(this_machine()) if address is None else None,
        )
        SweepFolder(home_folder, checked.name).make()
        if progress:
            stack.enter_context(_shown_progress())
        stack.enter_context(stop)
        try:
            return sweep.run_checked_sweep(
                checked, options, stop=stop, view=Watcher, announce=lambda *_: None
            )
        except Stopped as error:
            reason = error.reason or "a signal came before the first trial"
            raise KeyboardInterrupt(reason) from error


def _start(
    spec: object,
    overrides: Mapping[str, Any],
    *,
    tracking_uri: str | None,
    **arguments: str | Path | None,
) -> StartCommand:
    """Return the call of `run_sweep` as it is typed, without what concerns this start alone."""
    from orchestrator.core.start_command import StartCommand
    from orchestrator.storage.tracking.trackers import without_passwords

    words = [repr(str(spec)) if isinstance(spec, str | Path) else "spec"]
    words += [f"{name}={str(value)!r}" for name, value in arguments.items() if value is not None]
    if tracking_uri is not None:
        is_secret = without_passwords(tracking_uri) != tracking_uri
        words.append(f"tracking_uri={'...' if is_secret else repr(tracking_uri)}")
    texts = [
        f"{key}={value.__name__ if _is_code(key, value) else repr(value)}"
        for key, value in overrides.items()
    ]
    return StartCommand(tuple(words), tuple(texts), in_python=True)


@contextmanager
def _shown_progress() -> Iterator[None]:
    """Print what the logger `rnnsweep` gets to stderr, unless the program has set up logging."""
    if _log.level != logging.NOTSET or _log.handlers or _log.isEnabledFor(logging.INFO):
        yield
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    handler.addFilter(lambda record: record.name == _log.name)  # no output of trainers
    had_level, propagates = _log.level, _log.propagate
    _log.addHandler(handler)
    _log.setLevel(logging.INFO)
    _log.propagate = False  # warnings would appear twice where the root logger has a handler
    try:
        yield
    finally:
        _log.removeHandler(handler)
        _log.setLevel(had_level)
        _log.propagate = propagates


def read_sweep(sweep: str, *, tracking_uri: str | None = None) -> SweepRecord:
    """Read a sweep and its finished trials, ordered by block, repeat and arm, from the store.

    Example:
        >>> record = read_sweep("quickstart")
        >>> record.state, len(record.trials)
        ('complete', 24)
        >>> trial = record.trials[0]
        >>> trial.arm.implementation, trial.config["units"], trial.metrics["step_ms"]
        ('tensorflow/portable', 32, 5.0)
    """
    from orchestrator.storage.tracking.reader import read_stored_sweep as read

    return read(_store(tracking_uri), sweep)


def _store(tracking_uri: str | None = None) -> str:
    from orchestrator.storage.home import sweep_home
    from orchestrator.storage.tracking.trackers import tracking_uri as default_store

    return tracking_uri or default_store(sweep_home(), os.environ)


def report(
    sweep: str | SweepRecord,
    *,
    baseline: str | None = None,
    targets: Sequence[float] = (),
    tracking_uri: str | None = None,
) -> Report:
    """Return the report of a sweep.

    `print` shows its answer, and a notebook also the table. `save` writes the whole report as a
    page, Markdown, text or JSON, and `summary` has all numbers.

    Args:
        sweep: A name or a record.
        baseline: The implementation, variant or arm to compare with.
        targets: Values of val_accuracy; the report has the time, energy and cost to reach each.
        tracking_uri: The MLflow store.

    Raises:
        BaselineError: No arm has the name of the baseline.

    Example:
        >>> answer = report("quickstart")
        >>> answer
        <Report of quickstart#2: 24 of 24 trials, 0 failed>
        >>> answer.summary.arms[0].arm.implementation
        'tensorflow/portable'
        >>> answer.save("report.html")
    """
    from orchestrator.report.render import summarise
    from orchestrator.report.shown import Report

    return Report(summarise(_record(sweep, tracking_uri), baseline, targets))


def query(
    sweep: str | SweepRecord,
    where: str = "",
    columns: Sequence[str] | None = None,
    *,
    sql: str = "",
    sort: Sequence[str] = (),
    limit: int | None = None,
    tracking_uri: str | None = None,
) -> pd.DataFrame:
    """Return the trials of a sweep that match `where`, or the result of `sql`, as a DataFrame.

    Columns are the facts of a trial, its params and its metrics; `rnnsweep query SWEEP --list`
    prints them. The types are `Int64`, `float64`, `string`, `boolean` and `datetime64[ms, UTC]`;
    values may be missing.

    Args:
        sweep: A name or a record.
        where: A condition in DuckDB's SQL, such as `"val_accuracy > 0.5"`.
        columns: The columns to return, in this order. The default is all.
        sql: A SELECT statement on the table `trials`, instead of the other arguments.
        sort: Columns to sort by; `-step_ms` is in reverse. Missing values come last.
        limit: The largest number of rows.
        tracking_uri: The MLflow store.

    Raises:
        QueryError: An unknown column, wrong SQL, or a query that needs more than 2 GiB of memory or
            has a result of more than 256 MiB. It is also a `ValueError`.

    Example:
        >>> trials = query("quickstart", "backend = 'tensorflow' and val_accuracy > 0.5",
        ...                ["implementation", "units", "step_ms"], sort=["step_ms"], limit=2)
        >>> list(trials.columns)
        ['implementation', 'units', 'step_ms']
        >>> trials["step_ms"].tolist()
        [2.5, 2.625]
    """
    from orchestrator.report.query import query_records
    from orchestrator.storage.tracking.reader import read_rows

    rows = None
    if isinstance(sweep, str):
        sweep, rows = read_rows(_store(tracking_uri), sweep)
    return query_records(sweep, where, columns, sort=sort, limit=limit, sql=sql, rows=rows)


@_without(accept_provisional="busy_counts=True counts verdicts on a busy machine")
def compare(
    before: str | Path | SweepRecord,
    after: str | Path | SweepRecord,
    *,
    margin: float = 0.05,
    busy_counts: bool = False,
    tracking_uri: str | None = None,
) -> ShownChanges:
    """Compare two sweeps, or two generations of a sweep, arm by arm.

    Args:
        before: A name, a record, or the path of a JSON report.
        after: The same, for the later side.
        margin: The share by which a time or a memory may change and still count as the same.
        busy_counts: Accept verdicts from a busy machine; otherwise their arms are `unjudged`.
        tracking_uri: The MLflow store.

    Returns:
        The changes, which `print` and notebooks show. `contrasts` has one for each arm and metric:
        `subject` and `reference` are the arm after and before; `verdict` is `better`, `worse`,
        `same` or `open`; `qualifier` is `busy` on a busy machine; `estimate` is the change with its
        interval: before divided by after for times and memory, after minus before for results.
        `arms` are on both sides, `only_before` and `only_after` on one.

    Raises:
        InvalidSide: A file is not a report, the workloads differ, or both sides are the same sweep.

    Example:
        >>> changes = compare("quickstart#1", "quickstart#2")
        >>> for change in changes.of_time:
        ...     print(change.subject, change.verdict, round(change.estimate.value, 2))
        tensorflow/portable on AMD EPYC, 2 CPUs same 1.0
        tensorflow/portable+xla on AMD EPYC, 2 CPUs worse 0.67
    """
    from orchestrator.report.compare.changes import compare_sides
    from orchestrator.report.compare.shown import ShownChanges

    sides = _side(before, tracking_uri), _side(after, tracking_uri)
    changes = compare_sides(*sides, margin)
    return ShownChanges.of(changes, busy_counts=busy_counts)


def best(
    sweep: str | SweepRecord,
    metric: str | None = None,
    *,
    at_least: Mapping[str, float] | None = None,
    at_most: Mapping[str, float] | None = None,
    arm: str = "*",
    tracking_uri: str | None = None,
) -> BestConfig:
    """Return the config with the best mean of a metric, within limits, and the arm to use it on.

    If the metric is a result, such as an accuracy, several arms may be equally good at this config
    (within the margin, or of equal mathematics); the fastest of them is chosen.

    Args:
        sweep: A name or a record.
        metric: The default is the first objective without a limit, else an accuracy, else a time.
        at_least: Lower limits by metric, for means over repeats: `{"val_accuracy": 0.85}`.
        at_most: Upper limits by metric.
        arm: Choose only among these: an implementation, a variant or an arm. An arm with other
            mathematics is chosen only if it is named.
        tracking_uri: The MLflow store.

    Returns:
        The choice, which `print` and notebooks show: the `arm`, the `config`, the `values` of all
        metrics, and `arms`, all arms on this config. `spec` is a sweep of this config alone, for
        `run_sweep`; if the sweep was run with functions of a notebook, put them in place of their
        names: `{**choice.spec, "workload": train}`. `code()` is Python code that uses the
        implementation, if it is one of rnnsweep's.

    Raises:
        Refusal: No config is within the limits, or no trial has the metric.

    Example:
        >>> choice = best("quickstart", "step_ms", at_least={"val_accuracy": 0.85})
        >>> choice.arm.implementation, choice.config["units"], choice.values["step_ms"]
        ('tensorflow/portable+xla', 32, 2.5)
        >>> choice.spec["search"]["configs"][0]["units"]
        32
    """
    from orchestrator.report.best.chosen import Limit, choose

    _expect("at_least", at_least, (Mapping, type(None)), 'a mapping, {"val_accuracy": 0.85}')
    _expect("at_most", at_most, (Mapping, type(None)), 'a mapping, {"step_ms": 20}')
    for name, bound in [*(at_least or {}).items(), *(at_most or {}).items()]:
        _expect(f"the limit of {name}", bound, (numbers.Real,), "a number")
    limits = [Limit(name, "≥", float(bound)) for name, bound in (at_least or {}).items()]
    limits += [Limit(name, "≤", float(bound)) for name, bound in (at_most or {}).items()]
    return choose(_record(sweep, tracking_uri), metric, limits, arm)


def _checked(
    spec: str | Path | Mapping[str, Any],
    overrides: Mapping[str, Any] | None,
    stack: ExitStack,
) -> SweepSpec:
    """Check a spec in any of its forms; its code is found until `stack` ends."""
    from orchestrator.core.shipped_sweeps import find_spec
    from orchestrator.execution.session_package import functions_as_entries
    from orchestrator.spec import Problem, SpecError, load_spec, parse_spec

    given = dict(overrides or {})
    data = dict(spec) if isinstance(spec, Mapping) else {}
    functions = {key: value for key, value in {**data, **given}.items() if _is_code(key, value)}
    entries = stack.enter_context(functions_as_entries(functions)) if functions else {}
    data |= {key: entry for key, entry in entries.items() if key in data}
    given |= {key: entry for key, entry in entries.items() if key in given}
    texts = [f"{key}={json.dumps(value)}" for key, value in given.items()]
    if not isinstance(spec, Mapping):
        file = find_spec(Path(spec))
        stack.enter_context(code_in(file.parent))
        return load_spec(file, texts, import_classes=True)
    source = "the spec"
    try:
        text = json.dumps(data, default=_as_dict, ensure_ascii=False)  # which is YAML, too
    except TypeError as error:
        expected = "plain values (text, numbers, lists, mappings)"
        raise SpecError(source, [Problem(source, "", expected, str(error))]) from error
    return parse_spec(
        text,
        source=source,
        overrides=texts,
        folder=Path.cwd(),
        import_classes=True,
        has_lines=False,
    )


def _is_code(key: str, value: object) -> bool:
    """Return whether a value of a spec is a function in place of its name."""
    return key in ("workload", "model", "data", "callbacks") and callable(value)


def _as_dict(value: object) -> dict[Any, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"a value of type {type(value).__name__}")
    return dict(value)


def _record(sweep: str | SweepRecord, tracking_uri: str | None) -> SweepRecord:
    if isinstance(sweep, str):
        return read_sweep(sweep, tracking_uri=tracking_uri)
    return sweep


def _expect(name: str, value: object, kinds: tuple[type, ...], expected: str) -> None:
    """Raise `TypeError` for an argument that is of none of these types."""
    if not isinstance(value, kinds):
        raise TypeError(f"{name}: expected {expected}; received {value!r:.200}")


def _side(side: str | Path | SweepRecord, tracking_uri: str | None) -> Side:
    from orchestrator.report.compare.sides import read_report, side_of

    if isinstance(side, Path) or (isinstance(side, str) and side.lower().endswith(".json")):
        return read_report(Path(side))
    record = _record(side, tracking_uri)
    return side_of(f"{record.name}#{record.generation}", record)


def _interrupt() -> None:
    raise KeyboardInterrupt
