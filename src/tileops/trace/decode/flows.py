"""The arrows of ``dag`` edges, from slice to slice."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .events import Events
from .rows import Rows
from .site_arrays import Sites


def flows(begins: Events, cut: np.ndarray, rows: Rows, sites: Sites, first_slice: int) -> dict[str, np.ndarray]:
    """Pairs the n-th ``src`` of a CTA with its (n + shift)-th ``dst``, for each pair of groups that hold them.

    An arrow needs both of its slices whole.
    """
    ctas_first_slice = np.append(0, np.cumsum(rows.per_cta(begins.per_row)))
    parts = [(np.empty(0, dtype=np.int64),) * 3]

    def slices_of(name: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """For each group with ranges of that name, its slices of them.

        And for each CTA, where its own begin among these, the number of its first one, and whether that is known.
        """
        of_name = sites.codes["name"] == name
        for group in np.unique(sites.codes["group"][of_name]):
            chosen = of_name & (sites.codes["group"] == group)
            at = np.flatnonzero(chosen.take(begins.range))
            first = np.searchsorted(at, ctas_first_slice)
            lost = (rows.lost[:, group] > 0) & rows.table.keep_last
            total = sites.total[chosen]
            number = np.where(lost, total.sum() - np.diff(first), 0)
            yield at, first, number, ~lost | ((total >= 0).all() & (number >= 0))

    for src_name, dst_name, shift in sites.edges:
        for src, src_first, src_number, src_known in slices_of(src_name):
            for dst, dst_first, dst_number, dst_known in slices_of(dst_name):
                # Counted within what the rows hold, the same arrow may have another shift in each CTA.
                shifts = src_number + shift - dst_number
                skipped = np.maximum(-shifts, 0)
                made = np.maximum(np.minimum(np.diff(src_first), np.diff(dst_first) - shifts) - skipped, 0)
                made = np.where(src_known & dst_known, made, 0)
                nth = np.arange(made.sum()) - np.repeat(np.cumsum(made) - made - skipped, made)
                src_slice = src.take(np.repeat(src_first[:-1], made) + nth)
                dst_slice = dst.take(np.repeat(dst_first[:-1] + shifts, made) + nth)
                occurrence = nth + np.repeat(src_number, made)
                if cut.any():
                    whole = ~(cut[src_slice] | cut[dst_slice])
                    src_slice, dst_slice, occurrence = src_slice[whole], dst_slice[whole], occurrence[whole]
                parts.append((src_slice, dst_slice, occurrence))
    src_slice, dst_slice, occurrence = (np.concatenate(column) for column in zip(*parts))
    if len(parts) > 2:
        order = np.argsort(src_slice, kind="stable")
        src_slice, dst_slice, occurrence = src_slice[order], dst_slice[order], occurrence[order]
    return {"src_slice": src_slice + first_slice, "dst_slice": dst_slice + first_slice, "occurrence": occurrence}
