"""The module of pytorch/pytorch issue 65597: three LSTM, in float64 if the settings say so."""

import numpy as np
import torch


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(4, 64, num_layers=3, batch_first=True)
        self.head = torch.nn.Sequential(
            torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4)
        )

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


def build(settings):
    return Network().to(getattr(torch, settings["dtype"]))


loss = torch.nn.functional.mse_loss


def load(settings):
    draw = np.random.default_rng(0)
    return draw.normal(size=(1024, settings["window"], 4)), draw.normal(size=(1024, 4))
