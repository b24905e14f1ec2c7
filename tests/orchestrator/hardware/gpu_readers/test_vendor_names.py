"""NVML's name stands in the rooms that read GPUs alone, so that another reader is a file, too."""

from tests.documents import ROOT


def test_only_the_rooms_of_hardware_and_telemetry_say_nvml() -> None:
    rooms = ("orchestrator/hardware/", "orchestrator/execution/telemetry/")
    speaking = [
        str(path.relative_to(ROOT))
        for package in ("orchestrator", "rnnsweep", "workloads")
        for path in sorted((ROOT / package).rglob("*"))
        if path.is_file() and path.suffix != ".pyc" and b"nvml" in path.read_bytes().lower()
    ]
    assert speaking, "the search finds something"
    assert [path for path in speaking if not path.startswith(rooms)] == []
