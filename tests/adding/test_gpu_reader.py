"""A reader of another vendor's GPUs is one file and its class in a list, in a copy."""

from pathlib import Path

from tests.adding.copied_project import copy_project
from tests.documents import ROOT

READERS = "orchestrator/hardware/gpu_readers"
EXAMPLE = ROOT / "tests" / READERS / "pretend_reader.py"
IMPORT = "from orchestrator.hardware.gpu_readers.nvml import NvmlReader"
LIST = "READERS: tuple[GpuReader, ...] = (NvmlReader(),)"


def test_a_reader_of_gpus_is_one_file_and_an_entry(tmp_path: Path) -> None:
    project = copy_project(tmp_path)
    (project.folder / READERS / "pretend.py").write_text(EXAMPLE.read_text())
    known = f"{READERS}/known_readers.py"
    added = "from orchestrator.hardware.gpu_readers.pretend import PretendReader\n"
    project.insert_after(known, IMPORT, added)
    project.replace_line(
        known, LIST, LIST.replace("NvmlReader(),", "NvmlReader(), PretendReader()")
    )
    gpus = tmp_path / "gpus.txt"
    gpus.write_text("Pretend 9000\nPretend 9000")
    observed = project.observe("tests.adding.observe_gpu_reader", str(gpus))
    assert Path(observed["place"]).is_relative_to(tmp_path)
    assert observed["readers"] == ["nvml", "pretend"]
    assert observed["gpus"] == ["PRETEND-0", "PRETEND-1"]
    assert observed["classes"] == ["Pretend 9000"]
    assert observed["hidden from a CPU trial"] == "-1"
