"""Two backends of another package, as `docs/adding/backend.md` describes; imports no framework.

`mirror` is TensorFlow under another name: Keras trains on it. `array` is Keras' own backend for
NumPy, which computes no gradients, so that only a workload of a user's own can use it.
"""

from collections.abc import Iterator, Mapping
from typing import ClassVar

from workloads.backends.backend import Backend, Combination
from workloads.protocol import Device


class Mirror(Backend):
    name = "mirror"
    title = "Mirror"
    package = "tensorflow"
    install = "pip install mirror"
    framework = f"{__name__}.frameworks:MirrorFramework"
    keras_backend = "tensorflow"
    distributions = ("tensorflow", "keras")
    options: ClassVar[Mapping[str, str]] = {"polished": "its surface is polished"}

    def option_reasons(self, asked: Combination) -> Iterator[str]:
        if asked.has_option("polished"):
            yield "nobody has polished it yet"


class Array(Backend):
    name = "array"
    title = "NumPy"
    package = "numpy"
    install = "pip install numpy"
    framework = f"{__name__}.frameworks:ArrayFramework"
    keras_backend = "numpy"
    always_eager = True

    def environment(self, device: Device) -> Mapping[str, str]:
        return {"ARRAY_DEVICE": device}

    def device_reasons(self, asked: Combination) -> Iterator[str]:
        yield "Keras computes no gradients with NumPy"


MIRROR, ARRAY = Mirror(), Array()


class Nameless(Backend):
    """Lacks what every backend must have."""


NAMELESS = Nameless()
