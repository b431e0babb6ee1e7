"""What a generated source says of itself: which kernels are to be instrumented, and which were left and why.

Both are lines of their own in the source, because that is all that comes out of TileLang's cache: a call that stands
for the recorder until it is put in, and a comment for each kernel that was left as it was. What was put in is told by
the kernels' site tables, see ``sites.py``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .syntax import functions

# The call that stands for all of them until the source is there; see building.py.
PLACEHOLDER = "tileops_auto"

_PLACEHOLDER_LINE = re.compile(rb"^[ \t]*%s\((\d+), (.*)\);[ \t]*\n" % PLACEHOLDER.encode(), re.M)
_REFUSED = re.compile(r"^// tileops\.trace leaves (\w+) as it is: (.*)$", re.M)


@dataclass(frozen=True)
class Meant:
    """A kernel that is to be instrumented.

    Attributes:
        source: the source less the call that stands for the recorder in this kernel.
        number: of the kernel among those of its PrimFunc.
        slots: a C++ expression of the address of its first row.
    """

    source: str
    number: int
    slots: str


def is_meant(source: str) -> bool:
    """Whether any kernel of a source is to be instrumented."""
    return _PLACEHOLDER_LINE.search(source.encode()) is not None


def meant(source: str, name: str) -> Meant | None:
    """What a source says of its kernel ``name`` (in C); ``None`` if nothing."""
    raw = source.encode()
    function = next(one for one in functions(source) if one.name == name)
    found = _PLACEHOLDER_LINE.search(raw, function.start, function.end)
    if found is None:
        return None
    return Meant((raw[: found.start()] + raw[found.end() :]).decode(), int(found[1]), found[2].decode())


def refused(source: str, name: str, reason: str) -> str:
    """The source with a note that kernel ``name`` was left as it was."""
    return f"// tileops.trace leaves {name} as it is: {' '.join(reason.split())}\n{source}"


def refusals_in(source: str) -> dict[str, str]:
    """The kernels that were left as they were, by their names in C, with the reasons."""
    return dict(_REFUSED.findall(source))
