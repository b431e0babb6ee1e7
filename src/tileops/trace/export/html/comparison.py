"""The page of a comparison: a launch of each side under one another, and what changed."""

from __future__ import annotations

import base64
import html
from pathlib import Path

from ...comparison import Comparison
from ...timeline import Timeline
from .assembling import as_json, assemble, write_page
from .pack import pack

# A file may use what those before it export.
_SCRIPTS = (
    "palette.js", "format.js", "units.js", "elements.js", "recording.js", "model.js", "filter.js", "tooltip.js",
    "legend.js", "keys.js", "plane.js", "library.js", "figure.js", "comparison.js",
)  # fmt: skip


def export_comparison(
    comparison: Comparison, path: str | Path, *, title: str | None = None, plotlyjs: str = "embed"
) -> Path:
    """Writes a comparison as an HTML file: of each side the launch of the median span, on one axis, and what changed.

    Args:
        comparison: what :func:`tileops.trace.comparison.compare` gave.
        path: the file; its folders are made, and a file that is there is replaced, unless it is a recording.
        title: the page's heading; by default what the kernels are called.
        plotlyjs: where the page has Plotly's library from, see :func:`tileops.trace.export.html.export_html`.

    Returns:
        ``path``.

    Raises:
        ValueError: for another ``plotlyjs``.
        OSError: naming ``path``, if it cannot be written.
    """
    if title is None:
        kernels = [str(_median(side).meta.get("kernel") or "kernel") for side in (comparison.before, comparison.after)]
        title = kernels[0] if kernels[0] == kernels[1] else " → ".join(kernels)
        title = f"{title}: before and after"
    parts = {"title": html.escape(title), "comparison": as_json(comparison.as_dict())}
    for name, side in (("before", comparison.before), ("after", comparison.after)):
        head, block = pack(_median(side))
        head["title"] = title
        parts |= {f"{name}_head": as_json(head), f"{name}_block": base64.b64encode(block).decode("ascii")}
    return write_page(assemble("comparison.html", _SCRIPTS, parts, plotlyjs), path, plotlyjs)


def _median(side: tuple[Timeline, ...]) -> Timeline:
    """The launch whose span is the median of its side's, the lower of two; one without a span comes last."""
    ordered = sorted(side, key=lambda timeline: (timeline.summary().span_ns != timeline.summary().span_ns,
                                                 timeline.summary().span_ns))  # fmt: skip
    return ordered[(len(ordered) - 1) // 2]
