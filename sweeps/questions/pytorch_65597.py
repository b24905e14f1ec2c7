"""pytorch/pytorch issues 65597 and 94457: LSTM on a CPU, slower in PyTorch than in TensorFlow."""

import numpy as np
import torch


class Forecaster(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(8, 64, num_layers=3, batch_first=True)
        self.head = torch.nn.Linear(64, 1)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


def build(settings):
    return Forecaster().to(getattr(torch, settings["dtype"]))


def load(settings):
    draw = np.random.default_rng(7).normal
    return draw(size=(2048, 30, 8)).astype("float32"), draw(size=(2048, 1)).astype("float32")


loss = torch.nn.functional.mse_loss
