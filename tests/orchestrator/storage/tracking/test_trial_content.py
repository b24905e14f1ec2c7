"""The content of a trial's run, from which the trial is read back."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.arms import Arm, HardwareRef, HardwareUse, Usage, Variant
from orchestrator.core.trial import (
    EpochRecord,
    FinishedTrial,
    Outcome,
    SliceRecord,
    Telemetry,
    Trial,
)
from orchestrator.storage.tracking.limits import entity_name
from orchestrator.storage.tracking.stored_records import RECORD_TAG, TRIAL
from orchestrator.storage.tracking.trial_content import run_name, trial_content
from tests.building.arms import XLA
from tests.building.hardware import build_cpu_use
from tests.building.trials import IDENTITY, build_full_trial


def test_a_run_has_its_configs_settings_and_arm_as_params() -> None:
    trial = build_full_trial(1, XLA, repeat=1)
    params = {
        "workload": "image_rows",
        "dataset": "digits",
        "cell": "lstm",
        "epochs": "3",
        "units": "33",
        "learning_rate": "0.001",
        "bidirectional": "false",
        "jit": "true",
        "precision": "float32",
        "seed": str(trial.seed),
    }
    content = trial_content(IDENTITY, trial)
    assert content.params.items() >= params.items()
    assert not {"data_path", "threads"} & content.params.keys()


def test_params_of_an_own_model_may_be_null_or_lists() -> None:
    identity = replace(IDENTITY, workload="mine:build", settings={"fixed": None})
    full = build_full_trial(1)
    trial = replace(full.trial, config={"layers": (64, 32), "dropout": None})
    content = trial_content(identity, replace(full, trial=trial))
    assert content.params.items() >= {"layers": "[64,32]", "dropout": "null"}.items()
    assert "fixed" not in content.params
    assert content.name.startswith("layers [64,32] dropout null · ")


def test_an_arms_own_settings_win_over_the_sweeps_settings() -> None:
    work, gru = Usage(threads=4, settings={"epochs": 1}), Variant("small", {"cell": "gru"})
    own = Arm("tensorflow/portable", build_cpu_use(usage=work), gru)
    content = trial_content(IDENTITY, build_full_trial(1, own))
    assert content.name.startswith("gru 33×2 ") and content.tags["variant"] == "small"
    assert content.params.items() >= {"threads": "4", "epochs": "1", "cell": "gru"}.items()


def test_the_name_of_a_run_has_its_config_and_fits_into_mlflow() -> None:
    trial = build_full_trial(1, XLA, repeat=1)
    assert trial_content(IDENTITY, trial).name == (
        "lstm 33×2 learning_rate 0.001 bidirectional false · tensorflow/portable+xla"
        " · AMD EPYC, 2 CPUs · repeat 1"
    )
    plain = replace(IDENTITY, workload="own.module:run", settings={})
    assert run_name(plain, replace(trial.trial, config={"units": 33})).startswith("units 33 ·")
    assert len(run_name(plain, replace(trial.trial, config={"name": "x" * 500}))) <= 250


def test_names_that_mlflow_refuses_are_made_acceptable() -> None:
    for name in ("val_accuracy", "top-5 acc.", "a/b"):
        assert entity_name(name) == name
    refused = {"läss%": "läss_", "/a": "_a", "a//b": "a__b", "../a": "___a", ".": "_"}
    assert [entity_name(name) for name in refused] == list(refused.values())
    assert entity_name("x" * 300) == "x" * 250


def every_field(kind: type[Any], **given: Any) -> st.SearchStrategy[Any]:
    """Return a strategy of a dataclass that fills the fields with defaults too."""
    return st.builds(kind, **{field.name: ... for field in fields(kind)} | given)


def mapping_of(kind: Any) -> st.SearchStrategy[dict[Any, Any]]:
    return st.dictionaries(*map(st.from_type, kind.__args__), max_size=3)


st.register_type_strategy(float, st.floats(0, 2e9))
st.register_type_strategy(Mapping, mapping_of)
slices = every_field(SliceRecord, steps=st.integers(1, 99), seconds=st.floats(1e-6, 1e6))
st.register_type_strategy(SliceRecord, slices)
st.register_type_strategy(Telemetry, every_field(Telemetry, at_s=st.just(()), curves=st.just({})))
for nested in (Usage, HardwareRef, HardwareUse, Arm, EpochRecord, Trial, Outcome):
    st.register_type_strategy(nested, every_field(nested))


@given(trial=every_field(FinishedTrial, run_id=st.just("")))
def test_the_content_of_a_run_is_read_back_equal(trial: FinishedTrial) -> None:
    content = trial_content(IDENTITY, trial)
    assert all(len(value) <= 8000 for value in content.tags.values())
    assert content == trial_content(IDENTITY, trial)
    text = content.tags[RECORD_TAG]
    text = content.texts.get(text, text)
    back = TRIAL.load(text, "a run")
    assert back == replace(trial, outcome=replace(trial.outcome, artifacts={}))
    assert len(content.texts) >= len(trial.outcome.artifacts)
    kinds = [type(value) for value in trial.trial.config.values()]
    assert [type(value) for value in back.trial.config.values()] == kinds


def test_the_final_value_is_the_last_one_whatever_the_clock_did() -> None:
    trial = build_full_trial(0, metrics={"val_accuracy": 0.9})
    early = replace(trial, outcome=replace(trial.outcome, ended_s=trial.started_s))
    for content in (trial_content(IDENTITY, trial), trial_content(IDENTITY, early)):
        points = [point for point in content.points if point.name == "val_accuracy"]
        assert max(points, key=lambda point: (point.step, point.at_ms)).value == 0.9
        assert len({(point.step, point.at_ms) for point in points}) == len(points)
