"""The report as JSON: the sections that a person reads, and the figures behind them."""

from __future__ import annotations

from typing import Any

import msgspec

from ..facts import Report
from .document import document


def to_data(report: Report) -> dict[str, Any]:
    """The report as JSON's types; see ``docs/profile.md`` for the layout."""
    figures = msgspec.to_builtins(report)
    schema = figures.pop("schema")
    return {"schema": schema, "sections": msgspec.to_builtins(document(report)), "figures": figures}


def to_json(report: Report) -> bytes:
    """The report as JSON, indented, in UTF-8."""
    return msgspec.json.format(msgspec.json.encode(to_data(report)), indent=2) + b"\n"


def schema() -> dict[str, Any]:
    """The JSON Schema of the ``figures``, with every field's type."""
    return msgspec.json.schema(Report)
