"""Plots as SVG elements, which need no library and no script."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...facts import Report
from ...memory import Memory
from ...structure.launching import Queue
from ..units import duration, gpu, size

WIDTH, HEIGHT = 860, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 24, 16, 44


@dataclass(frozen=True)
class _Axis:
    """From values to places, on a logarithmic or a plain scale."""

    low: float
    high: float
    begin: float
    end: float
    logarithmic: bool = False

    def place(self, value: float) -> float:
        if self.logarithmic:
            part = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / ((self.high - self.low) or 1.0)
        return round(self.begin + part * (self.end - self.begin), 1)


def roofline(report: Report) -> str:
    """Whatever has known operations and bytes, under the roofs of its GPU; empty if nothing has.

    A point's bar spans the quartiles of its repeats.
    """
    points = []
    for verdict in report.verdicts:
        found = verdict.rates
        if found.intensity and found.tflops:
            points.append((verdict.name, found.intensity, found.tflops, found.spread or (found.tflops, found.tflops)))
    if not points:
        return ""
    roofs = {
        "tensor cores": max((_whole(v.rates.tflops, v.rates.matrix) for v in report.verdicts), default=0.0),
        "ordinary cores": max((_whole(v.rates.tflops, v.rates.vector) for v in report.verdicts), default=0.0),
    }
    roofs = {name: peak for name, peak in roofs.items() if peak}
    bandwidth = max((_whole(v.rates.gbps, v.rates.bandwidth) for v in report.verdicts), default=0.0)
    intensities = [point[1] for point in points]
    if bandwidth:
        intensities += [peak * 1e3 / bandwidth for peak in roofs.values()]
    rates = [rate for point in points for rate in (*point[3], point[2])] + list(roofs.values())
    x = _Axis(min(intensities) / 4, max(intensities) * 4, _LEFT, WIDTH - _RIGHT, True)
    y = _Axis(min(rates) / 4, max(rates) * 2, HEIGHT - _BOTTOM, _TOP, True)
    parts = [_grid(x, y, "operations per byte", "TFLOP/s")]
    for number, (name, peak) in enumerate(sorted(roofs.items(), key=lambda roof: -roof[1])):
        ridge = peak * 1e3 / bandwidth if bandwidth else x.low
        ridge = min(max(ridge, x.low), x.high)
        places = [(ridge, peak), (x.high, peak)]
        if bandwidth:
            # From where the slanted part enters the plot.
            start = max(x.low, y.low * 1e3 / bandwidth)
            places.insert(0, (start, start * bandwidth / 1e3))
        path = " ".join(f"{x.place(a)},{y.place(b)}" for a, b in places)
        parts.append(f'<polyline class="roof{" other" if number else ""}" points="{path}"/>')
        parts.append(_label(x.end - 4, y.place(peak) - 6, f"{name}: {peak:,.0f} TFLOP/s", "end"))
    below = 0.0
    for name, intensity, rate, (low, high) in sorted(points, key=lambda point: -point[2]):
        at = x.place(intensity)
        parts.append(f'<line class="spread" x1="{at}" x2="{at}" y1="{y.place(low)}" y2="{y.place(high)}"/>')
        parts.append(f'<circle class="point" cx="{at}" cy="{y.place(rate)}" r="5"/>')
        # Names of points that lie close stand below each other.
        below = max(y.place(rate) + 4, below + 14)
        parts.append(_label(at + 9, below, name, "start"))
    memory = f", {bandwidth:,.0f} GB/s" if bandwidth else ""
    return _svg(parts, f"Roofline{memory}; bars span the quartiles of the repeats", "Roofline plot")


def queue_plot(queue: Queue) -> str:
    """The depth of a GPU's launch queue over time; empty if nothing ever waited."""
    if queue.deepest == 0:
        return ""
    title = f"Kernels launched and not begun on {gpu(queue.device)}, over time"
    return _steps(queue.history, float(queue.deepest), str, title)


def memory_plot(memory: Memory) -> str:
    """A device's memory over time."""
    return _steps(memory.timeline, float(memory.peak_bytes), size, f"Memory allocated on {memory.device}, over time")


def _steps(history: Sequence[tuple[int, int]], high: float, spelled: object, title: str) -> str:
    if len(history) < 2:
        return ""
    x = _Axis(history[0][0], history[-1][0], _LEFT, WIDTH - _RIGHT)
    y = _Axis(0, high, 200, _TOP)
    places, before = [], None
    for moment, value in history:
        if before is not None:
            places.append(f"{x.place(moment)},{before}")
        before = y.place(min(value, high))
        places.append(f"{x.place(moment)},{before}")
    top = size(high) if spelled is size else f"{high:,.0f}"
    parts = [
        f'<line class="axis" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="200" y2="200"/>',
        _label(_LEFT - 6, _TOP + 4, top, "end", "tick"),
        _label(_LEFT - 6, 204, "0", "end", "tick"),
        _label(_LEFT, 218, duration(history[0][0]), "start", "tick"),
        _label(WIDTH - _RIGHT, 218, duration(history[-1][0]), "end", "tick"),
        f'<polyline class="steps" points="{" ".join(places)}"/>',
    ]
    return _svg(parts, title, title, 228)


def _grid(x: _Axis, y: _Axis, below: str, beside: str) -> str:
    parts = []
    for exponent in range(math.ceil(math.log10(x.low)), math.floor(math.log10(x.high)) + 1):
        at = x.place(10.0**exponent)
        parts.append(f'<line class="grid-line" x1="{at}" x2="{at}" y1="{y.begin}" y2="{y.end}"/>')
        parts.append(_label(at, y.begin + 16, f"{10.0**exponent:,g}", "middle", "tick"))
    for exponent in range(math.ceil(math.log10(y.low)), math.floor(math.log10(y.high)) + 1):
        at = y.place(10.0**exponent)
        parts.append(f'<line class="grid-line" x1="{x.begin}" x2="{x.end}" y1="{at}" y2="{at}"/>')
        parts.append(_label(x.begin - 6, at + 4, f"{10.0**exponent:,g}", "end", "tick"))
    parts.append(_label((x.begin + x.end) / 2, y.begin + 36, below, "middle", "tick"))
    parts.append(_label(x.begin - 60, y.end + 4, beside, "start", "tick"))
    return "".join(parts)


def _label(x: float, y: float, said: str, anchor: str, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x}" y="{y}" text-anchor="{anchor}">{html.escape(said)}</text>'


def _svg(parts: Sequence[str], title: str, label: str, height: int = HEIGHT) -> str:
    drawing = "".join(parts)
    return (
        f"<figcaption>{html.escape(title)}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
        f'aria-label="{html.escape(label)}">{drawing}</svg>'
    )


def _whole(value: float | None, part: float | None) -> float:
    """The whole of which a value is a part."""
    return value / part if value and part else 0.0
