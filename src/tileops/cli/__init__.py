"""The command line: one module a subcommand.

Each has ``HELP``, ``add_arguments(parser)`` and ``run(arguments)``, which returns the exit status. One that has
subcommands of its own, as :mod:`tileops.cli.trace` has, adds these instead of ``run``. What takes long to import
(TileLang: 6 s) is imported by ``run``, so that ``tileops --help`` answers at once.
"""
