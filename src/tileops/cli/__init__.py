"""The command line: one module a subcommand.

Each has ``HELP``, ``add_arguments(parser)`` and ``run(arguments)``, which returns the exit status. What takes long to
import (TileLang: 6 s) is imported by ``run``, so that ``tileops --help`` answers at once.
"""
