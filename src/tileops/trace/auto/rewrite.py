"""Generated CUDA source with recorder calls in it, and the site table that says what they record.

Every call is a line of its own, so that taking these lines out gives the source back. Calls follow the same rules as
those that :mod:`tileops.trace.lowering` makes: an operation that begins where another one ends shares its record; a
loop's first begin is recorded with the last end of the iteration before; and of calls that always run one after the
other, all but the last of up to four hold their records back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..batches import LARGEST
from ..lowering import device_source
from ..sites import BEGIN, END, TABLE_COMMENT, Edge, Group, Range, SiteTable
from ..slots import MAX_SITES, WORD_BYTES, layout
from . import barriers
from .operations import (
    ARRIVE,
    LOAD,
    WAIT,
    Choice,
    Node,
    Operation,
    Repeat,
    Step,
    all_operations,
    author_s,
    label,
    listed,
    operations,
)  # fmt: skip
from .roles import WARPGROUP, role_of, roles
from .syntax import Kernel, UnreadableError, identifiers, parse

REFUSED_COMMENT = "// tileops.trace leaves this kernel as it is: "
# The call that stands for all of them until the source is there; see building.py.
PLACEHOLDER = "tileops_auto"
LANE = "main"
ACQUIRE = "acquire"  # what a wait for room is called
# A row's records where their number depends on data, and the most that is kept where it follows from the source.
UNKNOWN_RECORDS, MOST_RECORDS = 4096, 1 << 15

_PLACEHOLDER_LINE = re.compile(rf"^[ \t]*{PLACEHOLDER}\((.*)\);[ \t]*\n", re.M)
_SWIZZLED = re.compile(r"const dim3 blockIdx = (.*);")
_WIDE = "(unsigned long long)"
_COUNTED = re.compile(r"(\w+) < \(?(\d+)\)?")


@dataclass(frozen=True)
class Instrumented:
    """A kernel's source that records, and its site table."""

    source: str
    table: SiteTable


def refusal_in(source: str) -> str:
    """Why a kernel's source was left as it was; empty if it was not."""
    found = re.search(rf"^{re.escape(REFUSED_COMMENT)}(.*)$", source, re.M)
    return found[1] if found else ""


def is_placeholder(source: str) -> bool:
    """Whether source is to be instrumented."""
    return PLACEHOLDER in source and _PLACEHOLDER_LINE.search(source) is not None


def without_placeholder(source: str) -> tuple[str, str]:
    """The source less the line that stands for the recorder, and what that line says of where to record."""
    found = _PLACEHOLDER_LINE.search(source)
    if found is None:
        raise UnreadableError("the line that stands for the recorder is not in its source")
    return source[: found.start()] + source[found.end() :], found[1]


def instrument(
    source: str, slots: str, level: str = "ops", *, lines: str = "", name: str = "", max_events: int | None = None
) -> Instrumented:
    """Puts recorder calls into a kernel's source.

    Args:
        source: what TileLang generated.
        slots: a C++ expression of the address of the first row.
        lines: one of how many CTAs there is room for; empty where there is for all.
        level: ``"roles"``, ``"ops"`` or ``"all"``.
        name: what the kernel is called in its site table.
        max_events: records that a row can hold; ``None`` takes what the source says, or 4096 where that depends on
            data.

    Raises:
        UnreadableError: if it can't; the text says why.
    """
    kernel = parse(source)
    return _Rewriter(source, kernel, level).made(slots, lines, name or kernel.name, max_events)


# ---------------------------------------------------------------------------------------------------------------------


@dataclass
class _Mark:
    """A call that records.

    Attributes:
        at: the offset of the line that it is put ahead of.
        role: the role that records.
        events: what it says happened, as (kind, number of the range).
        payload: a C++ expression, or nothing.
        condition: where it holds, ``more`` has happened as well.
        how: ``""``, ``"_held0"`` and so on, or ``"_store2"`` and so on.
    """

    at: int
    role: int
    events: list[tuple[str, int]]
    payload: str = ""
    condition: str = ""
    more: list[tuple[str, int]] = field(default_factory=list)
    how: str = ""


class _Rewriter:
    def __init__(self, source: str, kernel: Kernel, level: str):
        self._raw = source.encode()
        self._kernel = kernel
        self._level = level
        self._nodes = operations(kernel, level)
        self._operations = [*all_operations(self._nodes)]
        self._roles = roles(self._nodes)
        self._number = {operation: at for at, operation in enumerate(self._operations)}
        most = max(len(role.names) for role in self._roles)
        self._role = [role_of(operation, self._roles) for operation in self._operations]
        every = [(number, copy) for copy in range(most) for number, role in enumerate(self._role)
                 if copy < len(self._roles[role].names)]  # fmt: skip
        self._range = {one: at for at, one in enumerate(every)}  # of an operation and a warpgroup
        self._marks: list[_Mark | None] = []  # None where calls behind do not always follow those ahead
        self._own_sites: list[int] = []  # of each role, for one warpgroup
        self._edges = self._named()

    def made(self, slots: str, room: str, name: str, max_events: int | None) -> Instrumented:
        self._place(self._nodes)
        self._batch()
        marks = [mark for mark in self._marks if mark is not None]
        sites, lines, stored = self._sites(marks)
        if len(sites) > MAX_SITES:
            raise UnreadableError(f"it would take {len(sites)} markers; a kernel can hold {MAX_SITES}")
        payloads = [any(mark.payload for mark in marks if mark.role == at) for at in range(len(self._roles))]
        capacity = self._capacity(max_events)
        groups = [(role, at, copy) for at, role in enumerate(self._roles) for copy in range(len(role.names))]
        places = layout([payloads[at] for _, at, _ in groups], capacity)
        table = SiteTable(
            kernel=name,
            target="cuda",
            max_events=capacity,
            groups=tuple(
                Group(role.names[copy], role.lead + copy * WARPGROUP, place)
                for (role, _, copy), place in zip(groups, places)
            ),
            ranges=tuple(self._ranges()),
            sites=tuple(sites),
            edges=self._edges,
            stored=tuple(stored),
        )
        return Instrumented(self._assembled(table, lines, slots, room), table)

    # Names and arrows ------------------------------------------------------------------------------------------------

    def _named(self) -> tuple[Edge, ...]:
        """Names all operations and returns the arrows between them."""
        for operation in self._operations:
            operation.name = label(operation, self._level)
        events = [
            barriers.events(self._nodes, role.lead, {o for o, r in zip(self._operations, self._role) if r == at})
            for at, role in enumerate(self._roles)
        ]
        ended_by = barriers.sources(events)
        for nodes in _lists(self._nodes):
            for at, node in enumerate(nodes):
                if isinstance(node, Operation) and node.waits:
                    node.name = _wait_name(node, nodes[at + 1 :], ended_by.get(node, set()))
        for wait, ending in ended_by.items():
            for operation in ending:
                if operation.kind == ARRIVE and wait.name.startswith(ACQUIRE):
                    operation.name = f"release{wait.name.removeprefix(ACQUIRE)}"
        found = barriers.shifts(events, lambda operation: operation.name)
        return tuple(Edge(source, target, shift) for (source, target), shift in sorted(found.items()))

    def _ranges(self) -> Iterator[Range]:
        """The operations in order, then those of each role's second warpgroup, and so on."""
        inner = {one for operation in self._operations for one in operation.inner}
        for number, copy in self._range:
            operation, role = self._operations[number], self._role[number]
            line = self._raw.count(b"\n", 0, operation.statements[0].start) + 1
            yield Range(
                operation.name, LANE, self._first_group(role) + copy, int(operation in inner),
                "i" if self._payload(operation) else "", False, f"{self._kernel.name}.cu", line,
            )  # fmt: skip

    def _first_group(self, role: int) -> int:
        """A role's first warpgroup among all groups."""
        return sum(len(one.names) for one in self._roles[:role])

    def _payload(self, operation: Operation) -> str:
        return f"(int)({operation.loop})" if operation.loop else ""

    # Placing ---------------------------------------------------------------------------------------------------------

    def _place(self, nodes: list[Node], first: Operation | None = None, last: Operation | None = None,
               condition: str = "", payload: str = "") -> None:  # fmt: skip
        """Puts calls around a list's operations.

        Where ``first`` and ``last`` are given, the list is a loop's body, ``first``'s begin is recorded ahead of the
        loop, and where ``condition`` holds with ``last``'s end.
        """
        for node in nodes:
            if isinstance(node, Operation):
                self._bracket(node, begins=node is not first)
                if node is last and first is not None:
                    mark = self._marks[-1]
                    assert mark is not None
                    mark.condition, mark.more, mark.payload = condition, [(BEGIN, self._number[first])], payload
            elif isinstance(node, Repeat):
                self._repeat(node)
            elif isinstance(node, Choice):
                for part in (node.then, node.otherwise):
                    self._marks.append(None)
                    self._place(part)
                self._marks.append(None)
            elif node.statement.jumps:
                self._marks.append(None)

    def _bracket(self, operation: Operation, begins: bool) -> None:
        role, number = self._role[self._number[operation]], self._number[operation]
        if begins:
            self._add(operation.start, role, (BEGIN, number), self._payload(operation))
        for inner in operation.inner:
            self._add(inner.start, role, (BEGIN, self._number[inner]), "")
            self._add(inner.end, role, (END, self._number[inner]), "")
        self._add(operation.end, role, (END, number), "")

    def _add(self, at: int, role: int, event: tuple[str, int], payload: str) -> None:
        before = self._marks[-1] if self._marks else None
        if before and before.at == at and before.role == role and not (payload and before.payload):
            before.events.append(event)
            before.payload = before.payload or payload
        else:
            self._marks.append(_Mark(at, role, [event], payload))

    def _repeat(self, node: Repeat) -> None:
        statement = node.statement
        timed = [part for part in node.body if not isinstance(part, Step)]
        first, last = (timed[0], timed[-1]) if timed else (None, None)
        counted = _COUNTED.fullmatch(statement.loop.condition) if statement.loop else None
        carried = (
            isinstance(first, Operation) and isinstance(last, Operation) and statement.loop and counted
            and counted[1] == statement.loop.variable and statement.loop.first.isdigit()
            and int(statement.loop.first) + 1 < int(counted[2]) and not statement.jumps
            and statement.loop.step in (f"++{counted[1]}", f"{counted[1]}++")
            and self._role[self._number[first]] == self._role[self._number[last]]
        )  # fmt: skip
        if not carried:
            self._marks.append(None)
            self._place(node.body)
        else:
            assert isinstance(first, Operation)
            assert isinstance(last, Operation)
            assert counted is not None
            assert statement.loop is not None
            variable = counted[1]
            role = self._role[self._number[first]]
            begin = re.sub(rf"\b{variable}\b", statement.loop.first, self._payload(first))
            self._add(statement.start, role, (BEGIN, self._number[first]), begin)
            self._marks.append(None)
            self._place(node.body, first, last, f"{variable} < {int(counted[2]) - 1}", f"(int)({first.loop} + 1)")
        self._marks.append(None)

    def _batch(self) -> None:
        runs: dict[int, list[_Mark]] = {}
        for mark in [*self._marks, None]:
            if mark is not None:
                runs.setdefault(mark.role, []).append(mark)
                continue
            for run in runs.values():
                count = -(-len(run) // LARGEST)
                for number in range(count):
                    batch = run[number * len(run) // count : (number + 1) * len(run) // count]
                    for position, held in enumerate(batch[:-1]):
                        held.how = f"_held{position}"
                    if len(batch) > 1:
                        batch[-1].how = f"_store{len(batch)}"
            runs = {}

    # Writing ---------------------------------------------------------------------------------------------------------

    def _sites(self, marks: list[_Mark]) -> tuple[list[tuple[tuple[str, int], ...]], list[tuple[int, str]], list[int]]:
        """The table's sites, the lines to put in, and how many records are stored at each site.

        A role's sites stand together, those of its second warpgroup behind those of its first.
        """
        sites: list[tuple[tuple[str, int], ...]] = []
        lines: list[tuple[int, str]] = []
        stored: list[int] = []
        for at, role in enumerate(self._roles):
            own: list[tuple[list[tuple[str, int]], int]] = []
            for mark in (mark for mark in marks if mark.role == at):
                count = 0 if mark.how.startswith("_held") else int(mark.how[-1]) if mark.how else 1
                number = len(sites) + len(own)
                site, events = str(number), str(len(mark.events))
                own.append((mark.events, count))
                if mark.condition:
                    own.append(([*mark.events, *mark.more], count))
                    site = f"({mark.condition} ? {number + 1} : {site})"
                    events = f"({mark.condition} ? {len(own[-1][0])} : {events})"
                arguments = [str(at), site, events, *([mark.payload] if mark.payload else [])]
                suffix = "_i32" if mark.payload else ""
                lines.append((mark.at, f"tileops_mark{mark.how}{suffix}({', '.join(arguments)});"))
            for copy in range(len(role.names)):
                sites += [tuple((kind, self._range[number, copy]) for kind, number in events) for events, _ in own]
                stored += [count for _, count in own]
            self._own_sites.append(len(own))
        return sites, lines, stored

    def _capacity(self, max_events: int | None) -> int:
        if max_events is not None:
            return max_events
        counts = [0] * len(self._roles)
        known = self._count(self._nodes, 1, counts)
        return min(max(*counts, 1, 1), MOST_RECORDS) if known else UNKNOWN_RECORDS

    def _count(self, nodes: list[Node], times: int, counts: list[int]) -> bool:
        """Adds up an upper bound of each role's records; false where a loop's turns are not in the source."""
        known = True
        for node in nodes:
            if isinstance(node, Operation):
                counts[self._role[self._number[node]]] += 2 * times * (1 + len(node.inner))
            elif isinstance(node, Choice):
                known &= self._count(node.then, times, counts) and self._count(node.otherwise, times, counts)
            elif isinstance(node, Repeat):
                loop = node.statement.loop
                counted = _COUNTED.fullmatch(loop.condition) if loop else None
                if counted is None or loop is None or not loop.first.isdigit():
                    known = False
                else:
                    known &= self._count(node.body, times * max(int(counted[2]) - int(loop.first), 0), counts)
        return known

    def _assembled(self, table: SiteTable, lines: list[tuple[int, str]], slots: str, room: str) -> str:
        head = self._raw.index(b'extern "C" __global__')
        declared = [statement.text for statement in self._kernel.statements if statement.kind == "declaration"]
        swizzled = next((found[1] for text in declared if (found := _SWIZZLED.fullmatch(text))), "blockIdx")
        bytes_ = WORD_BYTES * table.line_words
        recorded = f"tileops_cta < (unsigned long long)({room})" if room else "true"
        row = f"tileops_block.y + {_WIDE}gridDim.y * tileops_block.z"
        opening = [
            f"const dim3 tileops_block = {swizzled};",
            f"const unsigned long long tileops_cta = tileops_block.x + {_WIDE}gridDim.x * ({row});",
            f"const bool tileops_recorded = {recorded};",
            f"const unsigned long long tileops_line = {_WIDE}({slots}) + {bytes_}ull * tileops_cta;",
        ]
        for number, role in enumerate(self._roles):
            place = table.groups[self._first_group(number)].layout
            where = f"tileops_line + {WORD_BYTES * place.offset}, tileops_recorded, gridDim.x, gridDim.y, gridDim.z"
            size = f"{place.capacity}, {place.record_words * WORD_BYTES}"
            if len(role.names) == 1:
                opening.append(f"tileops_open({number}, {size}, 0, {role.lead}, 0, {where});")
            else:
                each = f"{len(role.names)}, {WORD_BYTES * place.row_words}, {self._own_sites[number]}"
                opening.append(f"tileops_open_each({number}, {size}, {role.lead}, {each}, {where});")
        added = [(head, f"{TABLE_COMMENT}{table.to_json()}\n{device_source('recorder.cuh')}")]
        added += [(self._kernel.start, f"  {line}\n") for line in opening]
        added += [(at, f"{self._indent(at)}{line}\n") for at, line in lines]
        parts, done = [], 0
        for at, text in sorted(added, key=lambda one: one[0]):  # stable: what is put in at one place keeps its order
            parts += [self._raw[done:at], text.encode()]
            done = at
        return b"".join([*parts, self._raw[done:]]).decode()

    def _indent(self, at: int) -> str:
        """The indentation of the statement ahead of a line, or of the one that it begins."""
        line = self._raw[at : self._raw.index(b"\n", at)]
        text = line.decode()
        return text[: len(text) - len(text.lstrip())] + ("  " if text.lstrip().startswith("}") else "")


def _lists(nodes: list[Node]) -> Iterator[list[Node]]:
    yield nodes
    for node in nodes:
        if isinstance(node, Repeat):
            yield from _lists(node.body)
        elif isinstance(node, Choice):
            yield from _lists(node.then)
            yield from _lists(node.otherwise)


def _wait_name(wait: Operation, behind: list[Node], ended_by: set[Operation]) -> str:
    """A wait for data is named after what was loaded, one for room after what is loaded next."""
    loads = [operation for operation in ended_by if _is_load(operation)]
    if loads:
        names = [name for operation in sorted(loads, key=lambda one: one.start) for name in operation.buffers]
        return f"wait {listed(names)}"
    following = next((node for node in behind if isinstance(node, Operation) and node.kind != WAIT), None)
    if following is not None and _is_load(following):
        return f"{ACQUIRE} {listed(following.buffers)}"
    barrier = (identifiers(wait.waits[0][0]) or ["mbarrier"])[0]
    return f"wait {author_s(barrier)}"


def _is_load(operation: Operation) -> bool:
    return operation.kind == LOAD
