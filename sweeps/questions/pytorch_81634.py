"""The module of pytorch/pytorch issue 81634: two layers of LSTM(256) over 2000 steps."""

import numpy as np
import torch


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(256, 256, num_layers=2, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0]


def build(settings):
    return Network()


def load(settings):
    draw = np.random.default_rng(0)
    return draw.random((32, 2000, 256), "float32"), np.zeros((32, 1, 1), "float32")
