"""Reading of `.npz` files from outside, with all exceptions that it may raise."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile

UNREADABLE = (
    OSError,
    ValueError,  # also pickles, and invalid headers
    EOFError,
    TypeError,
    RuntimeError,  # encrypted, or compressed by an unknown method
    zipfile.BadZipFile,
    zlib.error,
)
"""The exceptions of `open_archive`, and of reading an array of its result, for an invalid file."""


def open_archive(path: str | Path) -> NpzFile[Any]:
    """Open an `.npz` file; nothing in it is ever unpickled.

    Raises:
        One of `UNREADABLE`: the file is missing, or not an `.npz` file.
    """
    try:
        archive = np.load(path, allow_pickle=False)
    except ValueError as error:
        if "pickled (object) data" not in str(error):
            raise
        # NumPy takes any unknown file for a pickle, and its message explains how to trust it.
        raise ValueError("received a file that begins like neither .npz nor .npy") from error
    if not isinstance(archive, NpzFile):
        raise TypeError(f"received one array of shape {archive.shape}, as in an .npy file")
    return archive
