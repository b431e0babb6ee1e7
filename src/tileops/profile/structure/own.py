"""What a profile does itself, in its own traces: its waits are none of the work's."""

from __future__ import annotations

from dataclasses import replace

from . import Structure

# How the labels begin that a profile puts around what it does.
OWN = "tileops: "


def without_own(structure: Structure) -> Structure:
    """A structure without what measuring did."""
    return replace(
        structure,
        labels=[label for label in structure.labels if not label.path[0].startswith(OWN)],
        table=[row for row in structure.table if not row.name.startswith(OWN)],
        syncs=[sync for sync in structure.syncs if not sync.inside.startswith(OWN)],
        outliers=[outlier for outlier in structure.outliers if not outlier.label.startswith(OWN)],
    )
