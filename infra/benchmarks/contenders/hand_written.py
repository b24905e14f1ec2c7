"""A hand-written PyTorch script without rnnsweep: `nn.LSTM` and a loop.

It computes what Keras' `fit` computes, and does only necessary work. Each line on standard input
starts it from the initial weights, and is answered with a line of JSON.
"""

import json
import sys
import time
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy


class CharRnn(nn.Module):
    def __init__(self, data: Any) -> None:
        super().__init__()
        vocabulary, inputs = data["embeddings"].shape
        units = len(data["recurrent_kernel"])
        self.embedding = nn.Embedding(vocabulary, inputs)
        self.recurrent = nn.LSTM(inputs, units, batch_first=True)
        self.logits = nn.Linear(units, vocabulary)
        self.load_state_dict(
            {
                "embedding.weight": torch.tensor(data["embeddings"]),
                "recurrent.weight_ih_l0": torch.tensor(data["kernel"].T),
                "recurrent.weight_hh_l0": torch.tensor(data["recurrent_kernel"].T),
                "recurrent.bias_ih_l0": torch.tensor(data["bias"]),
                "recurrent.bias_hh_l0": torch.zeros(4 * units),
                "logits.weight": torch.tensor(data["logits_kernel"].T),
                "logits.bias": torch.tensor(data["logits_bias"]),
            }
        )
        self.recurrent.bias_hh_l0.requires_grad_(False)  # Keras' LSTM has one bias, not two

    def forward(self, tokens: Any) -> Any:
        return self.logits(self.recurrent(self.embedding(tokens))[0])


def main() -> None:
    """Answer each line with the seconds of the epochs and the last epoch's losses and metrics."""
    job = json.loads(sys.argv[1])
    torch.set_num_threads(job["threads"])
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    device, settings = "cuda" if job["device"] == "gpu" else "cpu", job["settings"]
    synchronise = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    data = np.load(job["data"])
    train, validation = (
        [torch.tensor(data[f"{part}_{name}"]).long().to(device) for name in ("inputs", "targets")]
        for part in ("train", "validation")
    )
    for _ in sys.stdin:
        model = CharRnn(data).to(device)
        optimizer = torch.optim.SGD(
            model.parameters(), settings["learning_rate"], momentum=settings["momentum"]
        )
        epochs_s, last = [], {}
        for _ in range(settings["epochs"]):
            synchronise()
            began_s = time.perf_counter()
            loss, accuracy = one_epoch(model, train, settings["batch_size"], optimizer)
            synchronise()
            epochs_s.append(time.perf_counter() - began_s)
            with torch.no_grad():
                val_loss, val_accuracy = one_epoch(model, validation, settings["batch_size"])
            last = {"loss": loss, "accuracy": accuracy}
            last |= {"val_loss": val_loss, "val_accuracy": val_accuracy}
        print(json.dumps({"epochs_s": epochs_s, **last}), flush=True)


def one_epoch(
    model: CharRnn, data: list[Any], batch_size: int, optimizer: Any = None
) -> tuple[float, float]:
    """Train if there is an optimizer; return the mean loss and accuracy."""
    model.train(optimizer is not None)
    inputs, targets = data
    loss_sum = torch.zeros((), device=inputs.device)
    correct = torch.zeros((), device=inputs.device, dtype=torch.long)
    for tokens, following in zip(inputs.split(batch_size), targets.split(batch_size), strict=True):
        logits = model(tokens)
        loss = cross_entropy(logits.flatten(0, 1), following.flatten())
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        loss_sum += loss.detach() * len(tokens)
        correct += (logits.detach().argmax(-1) == following).sum()
    return float(loss_sum) / len(inputs), float(correct) / targets.numel()


if __name__ == "__main__":
    main()
