"""Packages that only some formats need."""

from __future__ import annotations

import importlib
from typing import Any

from ..errors import TraceError


def needed(module: str, what: str) -> Any:
    """Imports a module of the extra ``files``.

    Args:
        module: its name.
        what: what needs it, for the error.

    Raises:
        TraceError: if it is not installed, with the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise TraceError(
            f'{what} needs the package {package} ({error}): pip install "tileops[files]" has it and what the other '
            "formats need"
        ) from error
