"""What ranges do: wait, load or compute.

A ``dag`` edge tells that its destination waits. Beyond that names are all there is; which names mean what is said here,
and can be said otherwise by who calls.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from ..errors import TraceError

WAIT, LOAD, COMPUTE = "wait", "load", "compute"
# The words of docs/reading.md and of this package's kernels. A range has a role if its name, or its lane's, has one of
# the words.
WORDS: dict[str, frozenset[str]] = {
    WAIT: frozenset({"wait", "acquire"}),
    LOAD: frozenset({"load", "copy", "tma", "fetch"}),
    COMPUTE: frozenset({"compute", "mma", "wgmma", "gemm"}),
}


def words_of(roles: Mapping[str, Collection[str]] | None) -> dict[str, frozenset[str]]:
    """The words of each role: the given ones, else those above.

    Raises:
        TraceError: for a role that there is not, or words that are no collection of texts.
    """
    words = dict(WORDS)
    for role, given in (roles or {}).items():
        if role not in WORDS:
            raise TraceError(f"there is no role {role!r}: name words for {', '.join(WORDS)}")
        if isinstance(given, str) or not all(isinstance(word, str) for word in given):
            raise TraceError(f"roles: the words of {role!r} must be a collection of texts, got {given!r}")
        words[role] = frozenset(word.lower() for word in given)
    return words


def has_word(text: str, words: frozenset[str]) -> bool:
    """Whether a name has one of the words: as a whole, or as a part between signs, digits or changes of case."""
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", text)
    return text.lower() in words or any(part.lower() in words for part in parts)
