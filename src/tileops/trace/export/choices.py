"""What callers of an exporter may choose, apart from the exporter: to check a choice must not import Plotly."""

from __future__ import annotations

# The index's file name, which no timeline's page may have.
INDEX = "index.html"
# Where a page has Plotly's JavaScript from: itself, a file that its folder's pages share, or plotly.com's servers.
PLOTLYJS = ("embed", "folder", "cdn")


def check_plotlyjs(plotlyjs: object) -> str:
    """Returns ``plotlyjs``.

    Raises:
        ValueError: if it is none of :data:`PLOTLYJS`.
    """
    if not isinstance(plotlyjs, str) or plotlyjs not in PLOTLYJS:
        known = ", ".join(f'"{choice}"' for choice in PLOTLYJS[:-1]) + f' or "{PLOTLYJS[-1]}"'
        raise ValueError(f"plotlyjs must be {known}, got {plotlyjs!r}")
    return plotlyjs
