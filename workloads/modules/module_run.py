"""A PyTorch module with its data, loss and optimizer, and rnnsweep's own training loop for it."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from workloads.backends.feeding import reorder, with_float_type
from workloads.context import Context
from workloads.data.samples import DataSet, Samples, full_batches
from workloads.failures import BadRequest, NotPossible
from workloads.modules import compiling
from workloads.modules.batches import tensor_batches
from workloads.modules.calling import call_with
from workloads.modules.carried_state import find_carried_state, restore_kept, takes_batch
from workloads.modules.flops import ForwardFlops
from workloads.modules.own_module import OwnModule, set_mode
from workloads.settings import TrainingPlan

if TYPE_CHECKING:
    from workloads.backends.framework import Framework

_LEARNING_RATE = 1e-3
LOW_PRECISION = {"bf16": torch.bfloat16, "fp16": torch.float16}
_FLOAT_TYPES = {
    torch.float64: "float64",
    torch.float32: "float32",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
}


class ModuleRun:
    """A module on the device of a trial, and the steps that train and evaluate it.

    Batches have inputs and targets, perhaps with sample weights. A module gets the arrays of a
    tuple as arguments, and the arrays of a dict by their names. A module that carries a state from
    batch to batch has full batches in the order of the data, unless the plan says how to order
    them; each pass over data begins with the state that the module had when it was built. A module
    that takes no other size has full batches as well.

    Raise `BadRequest` for a training without a loss, or with an optimizer that needs a closure.
    """

    def __init__(
        self,
        own: OwnModule,
        plan: TrainingPlan,
        data: DataSet,
        trial: Context,
        framework: Framework,
    ) -> None:
        self.device = "cuda" if trial.device == "gpu" else "cpu"
        self.is_compiled = "compile" in trial.implementation.options
        self.own, self.plan, self.framework = own, plan, framework
        self.module: nn.Module = own.module.to(self.device)
        self._call: Any = self.module
        self.forget_compiled()
        self._precision = trial.implementation.precision
        self._scaler = torch.amp.GradScaler(self.device, enabled=self._precision == "fp16")
        self.optimizer = None
        if trial.timed_work == "train":
            expect_loss(own)
            self.optimizer = make_optimizer(own, self.module)
        name = float_type_of(self.module)
        self.train, self.validation = (
            with_float_type(part, name) for part in (data.train, data.validation)
        )
        self._trial_device = trial.device
        self._carried = find_carried_state(self.module, self.first_batch()[0])
        shuffles = not self._carried if plan.shuffle is None else plan.shuffle
        if shuffles:
            order = np.random.default_rng([trial.seed, 1]).permutation(len(self.train))
            self.train = reorder(self.train, order)
        if self._carried or not self._takes_partial_batches(trial):
            self.train = full_batches(self.train, plan.batch_size, "train")
            self.validation = full_batches(self.validation, plan.batch_size, "validation")
        elif trial.measure == "timing" and len(self.train) > plan.batch_size:
            self.train = self.train.first(len(self.train) - len(self.train) % plan.batch_size)
        self.train_feed = self.feed(self.train)
        self.validation_feed = self.feed(self.validation)
        self.forward_flops_per_sample: float | None = None
        with trial.optional("model_flops_per_step"):
            self.forward_flops_per_sample = self._count_forward_flops()

    @property
    def carries_state(self) -> bool:
        """Whether the module keeps a tensor from one batch to the next."""
        return bool(self._carried)

    @property
    def batch_size(self) -> int:
        """Samples of a full batch; fewer if there are fewer."""
        return min(self.plan.batch_size, len(self.train))

    @property
    def steps(self) -> int:
        """Steps of one epoch, the partial last batch included."""
        return -(-len(self.train) // self.plan.batch_size)

    def feed(self, samples: Samples) -> Any:
        """Return an iterable over batches of tensors on the device, in the samples' order."""
        return tensor_batches(samples, self.plan.batch_size, self._trial_device)

    def first_batch(self) -> tuple[Any, ...]:
        """Return the first full batch as tensors on the device."""
        batch: tuple[Any, ...] = next(iter(self.feed(self.train.first(self.batch_size))))
        return batch

    def endless_batches(self) -> Iterator[tuple[Any, ...]]:
        """Yield the batches of the training data again and again."""
        return chain.from_iterable(repeat(self.train_feed))

    # Steps

    def train_on(self, batches: Iterable[tuple[Any, ...]]) -> Any:
        """Run a training step on each batch; return the mean loss over samples, on the device."""
        assert self.optimizer is not None
        self.reset_carried_state()
        set_mode(self.module, training=True)
        total, samples = torch.zeros((), device=self.device), 0
        for batch in batches:
            self.optimizer.zero_grad(set_to_none=True)
            with self.autocast():
                loss = self.loss_of(self.predict(batch[0]), batch)
            self._scaler.scale(loss).backward()
            self._scaler.step(self.optimizer)
            self._scaler.update()
            count = _samples_in(batch)
            total += (
                loss.detach().to(total.dtype).reshape(()) * count
            )  # some losses have shape (1,)
            samples += count
        return total / samples

    def evaluate(self, batches: Iterable[tuple[Any, ...]]) -> dict[str, float]:
        """Return the mean loss and the means of the user's metrics over samples."""
        self.reset_carried_state()
        set_mode(self.module, training=False)
        totals, samples = dict[str, Any](), 0
        with torch.no_grad(), self.autocast():
            for batch in batches:
                outputs, count = self.predict(batch[0]), _samples_in(batch)
                values = {"loss": self.loss_of(outputs, batch)}
                if self.own.measure is not None:
                    values |= self.own.measure(outputs, *batch[1:2])
                for name, value in values.items():
                    totals[name] = totals.get(name, 0.0) + _widened(value) * count
                samples += count
        return {name: float(total) / samples for name, total in totals.items()}

    def predict_batches(self, inputs: Iterable[Any]) -> Any:
        """Predict batches of inputs in their order; return the last outputs."""
        self.reset_carried_state()
        set_mode(self.module, training=False)
        outputs = None
        with torch.no_grad(), self.autocast():
            for of_batch in inputs:
                outputs = self.predict(of_batch)
        return outputs

    def predict(self, inputs: Any) -> Any:
        """Call the module, as it is compiled or as it is written."""
        return call_with(self._call, inputs)

    def loss_of(self, outputs: Any, batch: tuple[Any, ...]) -> Any:
        """Return the user's loss of a batch."""
        assert self.own.loss is not None
        return self.own.loss(outputs, *batch[1:])

    def autocast(self) -> torch.autocast:
        """Return the context in which the module computes in the trial's precision."""
        dtype = LOW_PRECISION.get(self._precision)
        return torch.autocast(self.device, dtype, enabled=dtype is not None)

    # The state

    def reset_carried_state(self) -> None:
        """Set what the module carries from batch to batch to what it was when it was built."""
        restore_kept(self.module, self._carried)

    def expect_compiler(self) -> None:
        """Raise `NotPossible` if `torch.compile` cannot build a program here; it builds one."""
        if reason := compiling.compile_refusal_reason(self.device):
            raise NotPossible(f"+compile on {self._trial_device}: {reason}")
        self.forget_compiled()  # the counts of graphs are of the module alone

    def forget_compiled(self) -> None:
        """Let the next call compile the module anew, if it is to be compiled."""
        if self.is_compiled:
            self._call = compiling.compile_module(self.module)

    def state(self) -> dict[str, Any]:
        """Return a copy of all that training changes."""
        state: dict[str, Any] = {
            "module": self.module.state_dict(),
            "scaler": self._scaler.state_dict(),
        }
        if self.optimizer is not None:
            state["optimizer"] = self.optimizer.state_dict()
        return copy.deepcopy(state) | {"random": self.framework.random_state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Set back what `state` returned."""
        self.module.load_state_dict(state["module"])
        self._scaler.load_state_dict(state["scaler"])
        if self.optimizer is not None:
            self.optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))
            self.optimizer.zero_grad(set_to_none=True)
        self.framework.restore_random_state(state["random"])

    def _takes_partial_batches(self, trial: Context) -> bool:
        """Return False if the last batch of an epoch or of an evaluation is too small."""
        if trial.measure == "timing":  # which has full batches anyway
            return True
        size = self.plan.batch_size
        parts = (part for part in (self.train, self.validation) if len(part) > size)
        rests = [part.take(np.arange(len(part) - len(part) % size, len(part))) for part in parts]
        batches = [next(iter(self.feed(rest))) for rest in rests if len(rest)]
        return all(takes_batch(self.module, batch[0]) for batch in batches) or not takes_batch(
            self.module, self.first_batch()[0]
        )

    def _count_forward_flops(self) -> float:
        flops, start = ForwardFlops(), self.state()
        set_mode(self.module, training=False)
        try:
            with flops.counting(self.module), torch.no_grad(), self.autocast():
                call_with(self.module, self.first_batch()[0])
        finally:
            self.restore(start)
        return flops.total / self.batch_size


def expect_loss(own: OwnModule) -> None:
    """Raise `BadRequest` for a module without a loss, which cannot be trained."""
    if own.loss is None:
        raise BadRequest(
            f"{own.location} returns a PyTorch module, which needs a function loss(outputs,"
            " targets) next to it: add one, or time only predictions (measure: {mode: timing, of:"
            " predict})"
        )


def make_optimizer(own: OwnModule, module: nn.Module) -> Any:
    """Return the user's optimizer, or Adam; `BadRequest` for one whose step needs a closure."""
    parameters = [p for p in module.parameters() if p.requires_grad]
    if not parameters:
        raise BadRequest(f"{own.location}: the module has no parameters to train")
    if own.make_optimizer is None:
        return torch.optim.Adam(parameters, _LEARNING_RATE)
    optimizer = own.make_optimizer(parameters, own.settings)
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise BadRequest(
            f"{own.location}: optimizer(parameters, settings) must return a torch.optim optimizer,"
            f" not {optimizer!r:.80}"
        )
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise BadRequest(
            f"{own.location}: {type(optimizer).__name__} evaluates the loss several times in a"
            " step, so its steps are not comparable: use another optimizer, such as Adam or SGD"
        )
    return optimizer


def float_type_of(module: nn.Module) -> str:
    """Return the number format of a module's floating-point parameters, as NumPy names it."""
    types = (p.dtype for p in module.parameters() if p.dtype in _FLOAT_TYPES)
    return _FLOAT_TYPES[next(types, torch.float32)]


def _widened(value: Any) -> Any:
    """Return a number in at least float32: a sum in fewer bits would soon stop to grow."""
    is_low = isinstance(value, torch.Tensor) and value.dtype in LOW_PRECISION.values()
    return value.float() if is_low else value


def _samples_in(batch: tuple[Any, ...]) -> int:
    """Return the number of samples: the length of the first tensor of the inputs."""
    inputs = batch[0]
    while not isinstance(inputs, torch.Tensor):
        inputs = next(iter(inputs.values() if isinstance(inputs, Mapping) else inputs))
    return len(inputs)
