"""Files of NumPy's `.npz` format that come from outside, and all that reading them may raise."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile

UNREADABLE = (
    OSError,
    ValueError,  # pickles, too, and headers that are none
    EOFError,
    TypeError,
    RuntimeError,  # encrypted, or compressed in a way that is not known
    zipfile.BadZipFile,
    zlib.error,
)
"""What `open_archive`, and reading an array of what it returns, raise where a file is no such one,
or a damaged one."""


def open_archive(path: str | Path) -> NpzFile[Any]:
    """Open the file; nothing in it is ever unpickled.

    Raises:
        One of `UNREADABLE`: it is missing, or no such file.
    """
    try:
        found = np.load(path, allow_pickle=False)
    except ValueError as error:
        if "pickled (object) data" not in str(error):
            raise
        # NumPy takes any file that it does not know for a pickle, and says how to trust it.
        raise ValueError("received a file that begins like neither .npz nor .npy") from error
    if not isinstance(found, NpzFile):
        raise TypeError(f"received one array of shape {found.shape}, as in an .npy file")
    return found
