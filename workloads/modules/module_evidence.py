"""Evidence for a PyTorch module: what its recurrent layers ran, from the profile of a forward pass.

PyTorch chooses between cuDNN (on a GPU), oneDNN (on a CPU, for some formats and sizes) and its own
native loop inside `nn.LSTM` and its like. A loop of Python over cells is `portable`.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from workloads.backends.kernel_evidence import Proof
from workloads.backends.torch.evidence import happened_in, operand_type, rounds_to_tf32
from workloads.implementations import PRECISION_OF_TYPE
from workloads.modules import compiling
from workloads.modules.module_run import ModuleRun
from workloads.modules.own_module import set_mode
from workloads.protocol import TimedWork

_LAYERS = ("aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu")
_CELLS = ("aten::lstm_cell", "aten::gru_cell", "aten::rnn_tanh_cell", "aten::rnn_relu_cell")
_LIBRARIES = {"aten::_cudnn_rnn": "cudnn", "aten::mkldnn_rnn_layer": "onednn"}
_PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::linear")
_COMPILED = ("Torch-Compiled Region", "CompiledFunction")


def prove_module(run: ModuleRun, timed_work: TimedWork) -> Proof:
    """Identify what ran the recurrent layers of a module; leave its state as it was."""
    batch, start = run.first_batch(), run.state()
    run.reset_carried_state()
    set_mode(run.module, training=timed_work == "train")
    no_gradients = nullcontext() if timed_work == "train" else torch.no_grad()
    try:
        with (
            no_gradients,
            run.autocast(),
            profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler,
        ):
            run.predict(batch[0])
    finally:
        run.restore(start)
    events = list(profiler.profiler.kineto_results.events())
    pass_name = "forward" if timed_work == "train" else "prediction"
    return prove_profile(
        events,
        f"PyTorch's profiler, {pass_name} of one batch",
        is_compiled=run.is_compiled,
        rounds=run.device == "cuda" and rounds_to_tf32(),
    )


def prove_profile(
    events: Sequence[Any], subject: str, *, is_compiled: bool = False, rounds: bool = False
) -> Proof:
    """Identify what ran the recurrent layers in a profile; `rounds` products to TF32."""
    shown, types, kernels = Counter[str](), set[str](), set[str]()
    layers = [event for event in events if event.name() in _LAYERS]
    inside = {id(event) for event in events if happened_in(event, layers)} if layers else set()
    for layer in layers:
        parts = [event for event in events if happened_in(event, [layer])]
        libraries = {_LIBRARIES[e.name()] for e in parts if e.name() in _LIBRARIES}
        kernels |= libraries or {"native"}
        computing = [e for e in parts if e.name() in (*_LIBRARIES, *_PRODUCTS)]
        types |= {operand_type(event) for event in computing or [layer]}
    cells = [event for event in events if event.name() in _CELLS and id(event) not in inside]
    if cells:
        kernels.add("portable")
        in_cells = [e for e in events if e.name() in _PRODUCTS and happened_in(e, cells)]
        types |= {operand_type(event) for event in in_cells or cells}
    regions = [event for event in events if event.name().startswith(_COMPILED)]
    if regions and not kernels:
        return Proof("compiled", f"{subject}: {compiling.describe_graphs()}")
    for event in events:
        if event.name() in (*_LAYERS, *_LIBRARIES, *_CELLS):
            shown[event.name()] += 1
    options: list[str] = [PRECISION_OF_TYPE[kind] for kind in types & PRECISION_OF_TYPE.keys()]
    options += ["compile"] if regions else []
    options += ["tf32"] if rounds and types == {"float32"} else []
    kernel = "unknown" if not kernels else kernels.pop() if len(kernels) == 1 else "mixed"
    ran = kernel if kernel in ("unknown", "mixed") else "+".join([kernel, *sorted(options)])
    found = ", ".join(f"{name} × {count}" for name, count in shown.items())
    evidence = f"{subject}: {found or 'no recurrent operation by name'}"
    if types:
        evidence += f", of {' and '.join(sorted(types))}"
    return Proof(ran, f"{evidence}; {compiling.describe_graphs()}" if is_compiled else evidence)
