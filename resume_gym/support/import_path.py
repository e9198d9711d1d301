"""Correction of the import path for `python -m`.

This module imports only modules that the interpreter has already loaded, since a file in the
current folder could shadow any other module.
"""

import os
import sys
from os.path import dirname

_ROOT = dirname(dirname(dirname(__file__)))
"""Folder that contains the package."""


def leave_current_folder() -> None:
    """Remove the current folder from the import path, where `python -m` puts it first.

    If this package was imported from the current folder, the folder stays on the path.
    """
    try:
        path = os.getcwd()
    except FileNotFoundError:  # a deleted folder holds no modules
        return
    if sys.path[0] == path != _ROOT:
        del sys.path[0]
