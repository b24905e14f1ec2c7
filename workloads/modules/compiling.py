"""`torch.compile`: what it made of a module, and whether it can build a program here."""

import atexit
import functools
import re
from collections import Counter
from contextlib import ExitStack
from typing import Any

import torch
from torch._dynamo.utils import counters
from torch._inductor.utils import fresh_cache

from workloads.model_facts import GraphCounts
from workloads.modules.calling import call_with
from workloads.own_code import describe_error

_SHOWN_CAUSE = 100  # characters


_folder_of_programs = ExitStack()
"""Inductor's folder of compiled programs, which is empty at first."""

atexit.register(_folder_of_programs.close)


def compile_module(module: Any) -> Any:
    """Return a module that is compiled when it is called; the counts begin anew.

    Nothing that was compiled before is used: Inductor keeps its programs on disk, and a trial that
    found the programs of an earlier one would report a fraction of its compile time.
    """
    torch._dynamo.reset()
    counters.clear()
    _folder_of_programs.close()
    _folder_of_programs.enter_context(fresh_cache())
    return torch.compile(module)


def compilation_count() -> int:
    """Return how many graphs `torch.compile` has compiled."""
    return int(counters["stats"]["unique_graphs"])


def count_graphs() -> GraphCounts:
    """Return what `torch.compile` has made since the counts began."""
    breaks = _graph_breaks()
    causes = dict.fromkeys(cause[:_SHOWN_CAUSE] for cause in breaks)
    return GraphCounts(compilation_count(), sum(breaks.values()), tuple(causes))


def find_graphs(module: Any, inputs: Any) -> GraphCounts:
    """Call a module with a batch, and return what `torch.compile` would make of it.

    No program is built.
    """
    torch._dynamo.reset()
    counters.clear()
    try:
        call_with(torch.compile(module, backend="eager"), inputs)
        return count_graphs()
    except Exception as error:  # noqa: BLE001 - a training tells of it
        return GraphCounts(reason=describe_error(error, None).splitlines()[0])
    finally:
        torch._dynamo.reset()


def describe_graphs() -> str:
    """Write `torch.compile made 2 graphs, with 1 graph break (Dynamo does not know how to …)`."""
    found = count_graphs()
    if found.graphs:
        made = f"{found.graphs} graph{'s' * (found.graphs != 1)}"
        breaks = f"{found.breaks} graph break{'s' * (found.breaks != 1)}"
        text = f"torch.compile made {made}, with {breaks}"
    else:
        text = "torch.compile made no graph, so the module ran as written"
    causes = "; ".join(found.causes)
    return f"{text} ({causes})" if causes else text


@functools.cache
def compile_refusal_reason(device: str) -> str | None:
    """Return why `torch.compile` cannot build a program for the device; None if it has built one.

    On a CPU it needs a C++ compiler and the headers of Python, on a GPU Triton.
    """
    try:
        torch.compile(_small_function)(torch.ones(8, device=device))
    except Exception as error:  # noqa: BLE001 - its compilers raise many kinds
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        cause = next((line for line in lines if "error:" in line), lines[0] if lines else "")
        tools = "a C++ compiler and the headers of Python" if device == "cpu" else "Triton"
        return f"torch.compile needs {tools} to build a program: {cause[:300]}"
    finally:
        torch._dynamo.reset()
    return None


def _small_function(values: Any) -> Any:
    return (2 * values).sin() + 1


def _graph_breaks() -> Counter[str]:
    """Return the explanation of each graph break, with its count.

    Dynamo counts a break between two graphs as `graph_break`, and one for which it gives up a whole
    function, such as a call of `nn.LSTM`, as `unimplemented`.
    """
    breaks = Counter[str]()
    for category in ("graph_break", "unimplemented"):
        for message, count in counters[category].items():
            explanation = re.search(r"Explanation: (.+)", str(message))
            breaks[explanation[1] if explanation else str(message).partition("\n")[0]] += count
    return breaks
