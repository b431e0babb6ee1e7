"""Completion in shells: ``tileops --print-completion bash`` prints a script for one."""

from __future__ import annotations

import argparse

import shtab


def add_completion(parser: argparse.ArgumentParser) -> None:
    """Declares ``--print-completion``."""
    shtab.add_argument_to(
        parser, "--print-completion", help="print a script that completes this command in a shell, and exit"
    )


def completes_files(action: argparse.Action) -> None:
    """Has shells complete an argument's files, and folders on the way to them."""
    action.complete = shtab.FILE  # type: ignore[attr-defined]  # where shtab looks for it


def completes_folders(action: argparse.Action) -> None:
    """Has shells complete an argument's folders."""
    action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
