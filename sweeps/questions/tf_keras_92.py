"""keras-team/tf-keras issue 92: XLA compiles an unrolled loop of 240 steps for minutes."""

import keras


def build(settings):
    """Return a recurrent network over 240 steps."""
    model = keras.Sequential(
        [keras.Input((240, 4)), keras.layers.SimpleRNN(32), keras.layers.Dense(1)]
    )
    model.compile(optimizer="adam", loss="mse")
    return model
