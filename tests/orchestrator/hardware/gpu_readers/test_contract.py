"""What every reader of GPUs must do: the built-in one, and the example of the page."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pynvml
import pytest

from orchestrator.hardware.gpu_readers import (
    GpuDevice,
    GpuError,
    GpuLibraryMissing,
    GpuReader,
    GpuSample,
    OpenGpuReader,
)
from orchestrator.hardware.gpu_readers.nvml import NvmlReader
from tests.nvml.simulated import GPU_IS_LOST, SimulatedGpu, SimulatedNvml
from tests.orchestrator.hardware.gpu_readers.pretend_reader import PretendReader

Show: TypeAlias = Callable[[pytest.MonkeyPatch, Path, Sequence[str] | None], None]


def show_nvml(patch: pytest.MonkeyPatch, folder: Path, models: Sequence[str] | None) -> None:
    if models is None:

        def no_library() -> None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

        patch.setattr(pynvml, "nvmlInit", no_library)
        return
    lost = {"*": GPU_IS_LOST}
    gpus = [SimulatedGpu(name=model, errors=lost if model == "lost" else {}) for model in models]
    SimulatedNvml(gpus).in_this_process(patch, folder)


def show_pretended(patch: pytest.MonkeyPatch, folder: Path, models: Sequence[str] | None) -> None:
    patch.setenv("PRETEND_GPUS", str(folder / "gpus.txt"))
    if models is not None:
        (folder / "gpus.txt").write_text("\n".join(models))


@dataclass(frozen=True)
class Case:
    """A reader, and how GPUs of these models are shown to it: `lost` is one, None no library."""

    reader: GpuReader
    show: Show


CASES = {
    "nvml": Case(NvmlReader(), show_nvml),
    "pretend": Case(PretendReader(), show_pretended),
}

Shown: TypeAlias = Callable[[Sequence[str] | None], GpuReader]


@pytest.fixture(params=CASES)
def shown(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shown:
    case = CASES[request.param]

    def reader_with(models: Sequence[str] | None) -> GpuReader:
        case.show(monkeypatch, tmp_path, models)
        return case.reader

    return reader_with


def devices(library: OpenGpuReader) -> list[GpuDevice]:
    return [device for device in library.devices() if isinstance(device, GpuDevice)]


def test_its_names_are_words(shown: Shown) -> None:
    info = shown(()).info
    assert info.id.isidentifier() and info.id.islower()
    assert info.visibility_variable.isidentifier()
    assert info.library and info.vendor and info.how_to_reset


def test_gpus_are_in_the_order_of_their_indices_and_have_ids(shown: Shown) -> None:
    reader = shown(("A", "B"))
    for _ in range(2):  # it can be opened again
        with closing(reader.open()) as library:
            facts = [device.facts() for device in devices(library)]
            assert [device.uuid() for device in devices(library)] == [gpu.uuid for gpu in facts]
        assert [(gpu.index, gpu.name) for gpu in facts] == [(0, "A"), (1, "B")]
        assert len({gpu.uuid for gpu in facts}) == 2


def test_several_may_be_open_at_once(shown: Shown) -> None:
    reader = shown(("A",))
    with closing(reader.open()) as kept:
        with closing(reader.open()):
            pass
        (device,) = devices(kept)
        assert device.power_w() is not None


def test_readings_are_plausible(shown: Shown) -> None:
    with closing(shown(("A",)).open()) as library:
        (device,) = devices(library)
        first_j, second_j = device.energy_j(), device.energy_j()
        if first_j is not None and second_j is not None:
            assert 0 <= first_j <= second_j
        assert (device.power_w() or 0.0) > 0
        sample = device.sample()
        assert 0 <= (sample.utilization_pct or 0.0) <= 100
        memory = device.memory()
        assert memory is None or 0 <= memory.used_mib <= memory.total_mib
        assert sample.memory == memory
        assert all(isinstance(pid, int) for pid in device.processes() or ())
        assert not device.errors and not device.energy_errors() and not device.is_lost


def test_a_lost_gpu_has_reasons_and_ends_nothing(shown: Shown) -> None:
    with closing(shown(("A", "B")).open()) as library:
        _, device = devices(library)
        shown(("A", "lost"))
        readings = (device.energy_j(), device.power_w(), device.memory(), device.processes())
        assert readings == (None, None, None, None)
        assert device.sample() == GpuSample()
        assert device.is_lost and device.errors
        assert device.energy_errors()
        with pytest.raises(GpuError):
            device.facts()
        (working, *_) = devices(library)
        assert working.facts().name == "A"


def test_without_its_library_there_is_a_reason(shown: Shown, tmp_path: Path) -> None:
    reader = shown(None)
    with pytest.raises(GpuLibraryMissing):
        reader.open()
    absence = reader.absence(tmp_path)
    assert absence.reason and not absence.is_problem, "a machine without GPUs is none"


def test_an_environment_selects_gpus(shown: Shown) -> None:
    reader = shown(("A", "B"))
    with closing(reader.open()) as library:
        uuids = {gpu.index: gpu.uuid for gpu in (device.facts() for device in devices(library))}
    assert reader.visible_indices(uuids, {}) == (0, 1)
    assert reader.visible_indices(uuids, reader.showing_only([uuids[1]])) == (1,)
    assert reader.visible_indices(uuids, reader.showing_only([uuids[1], uuids[0]])) == (1, 0)
    assert reader.visible_indices(uuids, reader.showing_only(())) == ()
    by_index = {reader.info.visibility_variable: "1"}
    assert reader.visible_indices(uuids, by_index) == (1,)
