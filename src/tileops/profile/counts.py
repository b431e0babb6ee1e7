"""Operations and bytes as people give them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from .errors import ProfileError


def by_name(
    what: str, given: float | Mapping[str, float] | None, named: Collection[str]
) -> dict[str, float | None]:  # fmt: skip
    """One figure for all, or one by name, as one by name.

    Args:
        what: they count.
        given: by the user; None is unknown.
        named: the candidates.

    Raises:
        ProfileError: for what is no number above 0, and for other names.
    """
    figures: dict[str, float | None] = {}
    if isinstance(given, Mapping):
        if unknown := set(given) - set(named):
            raise ProfileError(f"{what} names {', '.join(sorted(map(repr, unknown)))}, which is no candidate")
        figures = dict(given)
    elif given is not None:
        figures = dict.fromkeys(named, given)
    for name, value in figures.items():
        if value is None:
            continue
        try:
            figures[name] = float(value)
        except (TypeError, ValueError, OverflowError):
            figures[name] = float("nan")
        if not 0 < (figures[name] or 0) < float("inf"):
            raise ProfileError(f"{what} of {name!r} is {value!r}: it must be a number above 0")
    return figures
