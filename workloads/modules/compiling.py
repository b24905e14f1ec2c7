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

_SHOWN_REASON = 100  # characters


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


def describe_graphs() -> str:
    """Write `torch.compile made 2 graphs, with 1 graph break (Dynamo does not know how to …)`."""
    graphs, breaks = int(counters["stats"]["unique_graphs"]), _graph_breaks()
    if graphs:
        made = f"{graphs} graph" if graphs == 1 else f"{graphs} graphs"
        count = sum(breaks.values())
        text = f"torch.compile made {made}, with {count} graph break{'s' * (count != 1)}"
    else:
        text = "torch.compile made no graph, so the module ran as written"
    reasons = "; ".join(dict.fromkeys(reason[:_SHOWN_REASON] for reason in breaks))
    return f"{text} ({reasons})" if reasons else text


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
