"""Where a TileLang kernel's time goes.

:mod:`tileops.trace` records timelines from inside the kernel; :mod:`tileops.profile` looks from outside, by PyTorch's
profiler.

Importing this package is cheap: it pulls in neither PyTorch nor TileLang.
"""

__version__ = "0.1.0"
