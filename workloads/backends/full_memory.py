"""How an error says that the memory of the GPU or of the node is full."""

from workloads.backends.registry import backends
from workloads.own_code import without_colours

_COMPLAINTS = ("RESOURCE_EXHAUSTED", "ALLOC_FAILED", "out of memory", "unable to allocate")
"""In the errors of XLA, cuDNN, CUDA and NumPy; each backend has its framework's own."""


def memory_complaint(error: BaseException) -> str | None:
    """Return the line in which an error says that memory does not suffice; None for another one."""
    of_frameworks = (text for b in backends().values() for text in b.memory_complaints)
    complaints = [text.casefold() for text in (*_COMPLAINTS, *of_frameworks)]
    for line in without_colours(str(error)).splitlines():
        if any(text in line.casefold() for text in complaints):
            return line.strip()[:200]
    return "no memory left" if isinstance(error, MemoryError) else None
