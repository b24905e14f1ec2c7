"""The code of a user's own workload, read without importing it."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from workloads.own_code import describe_error, read_code, training_on_import, versions_in_use

FILES = {
    "mine/__init__.py": "",
    "mine/deep/train.py": "import numpy\nfrom helper import f\nfrom . import x\nimport workloads\n",
    "mine/data-1/x.py": "",
    "helper.py": "def f():\n    from other import g\n    import yaml\n",
    "other/__init__.py": "import mine\n",
    "unused.py": "",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)


def test_the_package_counts_and_what_it_imports_from_its_folder() -> None:
    code = read_code("mine.deep.train:run")
    assert code is not None
    names = ["helper.py", "mine/__init__.py", "mine/deep/train.py", "other/__init__.py"]
    assert list(code.digests) == names
    alone = read_code("other:run")
    assert alone is not None and alone.digests == code.digests
    Path("helper.py").write_text("")
    changed = read_code("mine.deep.train:run")
    assert changed is not None
    different = {name for name in names if changed.digests.get(name) != code.digests[name]}
    assert different == {"helper.py", "other/__init__.py"}
    for workload in (
        "image_rows",
        "workloads.tasks.image_rows.task:load",
        "no_such:run",
    ):
        assert read_code(workload) is None


def test_the_code_of_an_own_model_is_that_of_both_of_its_functions() -> None:
    code = read_code("unused:build with helper:load")
    assert code is not None
    assert code.digests.keys() == {"unused.py"} | read_digests("helper:load").keys()
    assert read_digests("unused:build with random data").keys() == {"unused.py"}
    assert read_code("unused:build with no_such:load") is None


def read_digests(workload: str) -> Mapping[str, str]:
    code = read_code(workload)
    assert code is not None
    return code.digests


def test_trainings_that_an_import_runs_are_found_without_importing() -> None:
    script = """
import keras
def build(): model.fit(x)
class Mine:
    def fit(self): self.fit()
model = build()
with device: history = model.fit(x, y)
if __name__ == "__main__":
    model.fit(x, y)
print([m.fit(x) for m in (model,)])
for batch in batches:
    loss(batch).backward()
"""
    Path("script.py").write_text(script)
    Path("mine/deep/train.py").write_text("model.fit(1)")
    Path("broken.py").write_text("def (")
    found = [*training_on_import("script:build with mine.deep.train:load")]
    assert found == ["script.py:7", "script.py:10", "script.py:12", "mine/deep/train.py:1"]
    assert [*training_on_import("script:build with random data")] == found[:3]
    for workload in ("image_rows", "broken:build", "unused:run", "no_such:run"):
        assert not [*training_on_import(workload)]


def test_packages_are_named_as_they_are_installed() -> None:
    import numpy  # noqa: PLC0415
    import yaml  # noqa: PLC0415

    assert versions_in_use(frozenset({"numpy", "yaml", "json", "workloads", "no_such"})) == (
        f"PyYAML {yaml.__version__}, numpy {numpy.__version__}"
    )


def test_an_error_around_that_of_a_layer_has_both_in_its_first_line_and_no_colours() -> None:
    text = (
        "Exception encountered when calling LSTM.call().\n\n\x1b[1muse_cudnn=True was specified"
        "\x1b[0m\n\nArguments received by LSTM.call():\n  • sequences=tf.Tensor"
    )
    assert describe_error(ValueError(text), None).splitlines() == [
        "ValueError: Exception encountered when calling LSTM.call(): use_cudnn=True was specified",
        "Arguments received by LSTM.call():",
        "  • sequences=tf.Tensor",
    ]


def test_the_first_line_of_an_error_has_its_reason_and_no_calls_of_a_framework() -> None:
    calls = (
        'Detected at node GatherV2 defined at (most recent call last):\n  File "a.py", line 3\n\n'
    )
    graph = f"Graph execution error:\n\n{calls}indices[3,2] = 101 is not in [0, 5)\n\t [[node]]"
    state = 'Error(s) in loading state_dict for Linear:\n\tMissing key(s) in state_dict: "bias". '
    for text, reason in (
        (graph, "Graph execution error: indices[3,2] = 101 is not in [0, 5)"),
        (state, 'Error(s) in loading state_dict for Linear: Missing key(s) in state_dict: "bias".'),
        ("units:", "units:"),
    ):
        assert describe_error(ValueError(text), None).splitlines()[0] == f"ValueError: {reason}"
