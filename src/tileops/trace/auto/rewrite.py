"""Generated CUDA source with recorder calls in it, and the site table that says what they record.

Every call is a line of its own, so that taking these lines out gives the source back. Calls follow the same rules as
those that :mod:`tileops.trace.lowering` makes: an operation that begins where another one ends shares its record; a
loop's first begin is recorded with the last end of the iteration before; and of calls that always run one after the
other, all but the last of up to four hold their records back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ..choice import Choice as CtaChoice
from ..lowering import device_source
from ..sites import BEGIN, END, Edge, Group, Range, SiteTable, table_comment
from ..slots import MAX_SITES, WORD_BYTES, layout
from . import barriers
from .batching import BREAK, ENTER, LEAVE, Border, First, Flush, Mark, batched
from .mixed import OPEN, beside, is_mark, markers_of
from .named_barriers import mistaken
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
    below,
    kind_of,
    label,
    listed,
    operations,
)  # fmt: skip
from .roles import WARPGROUP, role_of, roles
from .syntax import Kernel, Statement, UnreadableError, identifiers, parse

LANE = "main"
ACQUIRE = "acquire"  # what a wait for room is called
# A row's records where their number depends on data, and the most that is kept where it follows from the source.
UNKNOWN_RECORDS, MOST_RECORDS = 4096, 1 << 15

ASYNCHRONOUS = ("wgmma_", "tcgen05mma", "tcgen05_mma")  # what GEMMs that run on by themselves are issued with
COMMIT = "warpgroup_commit_batch"
FENCES = {"warpgroup_fence_operand", "reinterpret_cast"}  # calls that are no instruction

_SWIZZLED = re.compile(r"const dim3 blockIdx = (.*);")
RECORDER = b"namespace tileops_trace"  # what tells that a source has the recorder's already
_WIDE = "(unsigned long long)"
_COUNTED = re.compile(r"(\w+) < \(?(\d+)\)?")


@dataclass(frozen=True)
class Instrumented:
    """A kernel's source that records, and its site table, in which its author's markers stand first."""

    source: str
    table: SiteTable


def instrument(
    source: str, slots: str, level: str = "ops", *, lines: str = "", name: str = "", max_events: int | None = None,
    kernel: str = "", number: int = 0, choice: CtaChoice | None = None,
) -> Instrumented:  # fmt: skip
    """Puts recorder calls into a kernel of a source, in which others may have theirs already.

    Args:
        source: what TileLang generated.
        slots: a C++ expression of the address of the first row.
        lines: one of how many lines there is room for; empty where there is for all.
        level: ``"roles"``, ``"ops"`` or ``"all"``.
        name: what the kernel is called in its site table.
        max_events: records that a row can hold; ``None`` takes what the source says, or 4096 where that depends on
            data.
        kernel: the kernel's name in C; empty for the only one.
        number: of the kernel among those of its PrimFunc, as its site table is told apart from theirs.
        choice: which CTAs record; ``None`` for all of them, or those that the author's markers record.

    Raises:
        UnreadableError: if it can't; the text says why.
    """
    parsed = parse(source, kernel)
    if reason := mistaken(parsed):
        raise UnreadableError(reason)
    rewriter = _Rewriter(source, parsed, level, markers_of(source, parsed).table)
    return rewriter.made(slots, lines, name or parsed.name, max_events, number, choice)


# ---------------------------------------------------------------------------------------------------------------------


class _Rewriter:
    def __init__(self, source: str, kernel: Kernel, level: str, markers: SiteTable):
        self._markers = markers
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
        self._range = {one: at for at, one in enumerate(every, len(markers.ranges))}  # of an operation and a warpgroup
        self._parts: list[Mark | Border] = []  # the calls, and what stands between them, in order
        self._own_sites: list[int] = []  # of each role, for one warpgroup
        self._edges = self._named()

    def made(
        self, slots: str, room: str, name: str, max_events: int | None, number: int, choice: CtaChoice | None
    ) -> Instrumented:
        markers = self._markers
        if choice is not None and markers.groups and choice != markers.choice:
            raise UnreadableError("its own markers say which CTAs record: leave ctas out")
        self._place(self._nodes)
        calls = batched(self._parts)
        marks = [call for call in calls if isinstance(call, Mark)]
        sites, lines, stored = self._sites(calls)
        if len(sites) > MAX_SITES:
            raise UnreadableError(f"it would take {len(sites)} markers; a kernel can hold {MAX_SITES}")
        payloads = [any(mark.payload for mark in marks if mark.role == at) for at in range(len(self._roles))]
        capacity = self._capacity(max_events)
        if markers.keep_last:  # a ring finds a record's place with a mask
            capacity = 1 << (capacity - 1).bit_length()
        groups = [(role, at, copy) for at, role in enumerate(self._roles) for copy in range(len(role.names))]
        places = layout([payloads[at] for _, at, _ in groups], capacity)
        taken = {group.name for group in markers.groups}
        found = [
            Group(
                beside(role.names[copy], taken), role.lead + copy * WARPGROUP,
                replace(place, offset=markers.line_words + place.offset),
            )
            for (role, _, copy), place in zip(groups, places)
        ]  # fmt: skip
        table = SiteTable(
            kernel=name,
            target="cuda",
            max_events=capacity,
            groups=(*markers.groups, *found),
            ranges=(*markers.ranges, *self._ranges()),
            sites=tuple(sites),
            edges=(*markers.edges, *self._edges),
            keep_last=markers.keep_last,
            choice=choice or markers.choice,
            stored=tuple(stored),
        )
        return Instrumented(self._assembled(table, lines, slots, room, number), table)

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
        taken = {r.name for r in self._markers.ranges}
        for operation in self._operations:
            operation.name = beside(operation.name, taken)
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
        return len(self._markers.groups) + sum(len(one.names) for one in self._roles[:role])

    def _recorder(self, role: int) -> int:
        """A role's recorder among all recorders."""
        return len(self._markers.groups) + role

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
                    mark = self._parts[-1]
                    assert isinstance(mark, Mark)
                    mark.condition, mark.more, mark.payload = condition, [(BEGIN, self._number[first])], payload
            elif isinstance(node, Repeat):
                self._repeat(node)
            elif isinstance(node, Choice):
                for part in (node.then, node.otherwise):
                    self._border(BREAK, node.statement.start)
                    self._place(part)
                self._border(BREAK, node.statement.end)
            elif node.statement.jumps:
                self._border(BREAK, node.statement.start)

    def _border(self, kind: str, at: int) -> None:
        self._parts.append(Border(kind, at))

    def _bracket(self, operation: Operation, begins: bool) -> None:
        """Puts calls around an operation and those inside it; notes which of them an asynchronous GEMM follows."""
        role, number = self._role[self._number[operation]], self._number[operation]
        if begins:
            self._add(operation.start, role, (BEGIN, number), self._payload(operation))
        first = len(self._parts) - begins  # the call that begins the operation, if one does
        for inner in operation.inner:
            self._add(inner.start, role, (BEGIN, self._number[inner]), "")
            self._add(operation.end if _ends_with(operation, inner) else inner.end, role,
                      (END, self._number[inner]), "")  # fmt: skip
        self._add(operation.end, role, (END, number), "")
        issue = _issue(operation.statements)
        ahead = [part for part in self._parts[first:] if issue is not None and part.at < issue.end]
        if ahead and issue is not None:
            assert isinstance(ahead[-1], Mark)
            ahead[-1].shadow = issue.end

    def _add(self, at: int, role: int, event: tuple[str, int], payload: str) -> None:
        before = self._parts[-1] if self._parts else None
        is_same = isinstance(before, Mark) and before.at == at and before.role == role
        if isinstance(before, Mark) and is_same and not (payload and before.payload):
            before.events.append(event)
            before.payload = before.payload or payload
        else:
            self._parts.append(Mark(at, role, [event], payload))

    def _repeat(self, node: Repeat) -> None:
        statement = node.statement
        timed = [part for part in node.body if not isinstance(part, Step) or is_mark(part.statement)]
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
            self._border(ENTER, statement.start)
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
            entered = self._parts[-1]
            self._border(ENTER, statement.start)
            self._place(node.body, first, last, f"{variable} < {int(counted[2]) - 1}", f"(int)({first.loop} + 1)")
            carried = self._parts[-1]
            assert isinstance(entered, Mark)
            assert isinstance(carried, Mark)
            if entered.payload == begin:
                events = [*carried.events, *carried.more]
                carried.again = Mark(first.start, role, events, self._payload(first), entered=entered)
        self._border(LEAVE, statement.end)

    # Writing ---------------------------------------------------------------------------------------------------------

    def _sites(
        self, calls: list[Mark | Flush | First]
    ) -> tuple[list[tuple[tuple[str, int], ...]], list[tuple[int, str]], list[int]]:
        """The table's sites, the lines to put in, and how many records are stored at each site.

        A role's sites stand together, those of its second warpgroup behind those of its first, all behind the author's.
        """
        sites: list[tuple[tuple[str, int], ...]] = [*self._markers.sites]
        lines: list[tuple[int, str]] = []
        stored: list[int] = [*self._markers.stored] or [1] * len(sites)
        for at, role in enumerate(self._roles):
            own: list[tuple[list[tuple[str, int]], int]] = []
            late: dict[Mark, int] = {}  # sites that are told apart from their records
            recorder = self._recorder(at)
            for mark in _in_order(call for call in calls if call.role == at):
                number = len(sites) + len(own)
                if isinstance(mark, First):
                    own.append((mark.events, 0))
                    more = len(mark.events) - len(mark.top.events)
                    lines.append((mark.at, f"tileops_first{mark.top.how[-1]}({recorder}, {number}, {more});"))
                    continue
                if isinstance(mark, Flush):
                    if mark.late is not None:
                        settle = f"tileops_settle{mark.late.how[-1]}({recorder}, {late[mark.late]});"
                        lines.append((mark.at, settle))
                    lines += [(mark.at, f"tileops_flush{mark.records}({recorder});")] if mark.records else []
                    continue
                count = 0 if mark.how.startswith(("_held", "_late")) else int(mark.how[-1]) if mark.how else 1
                site, events = str(number), str(len(mark.events))
                own.append((mark.events, count))
                if mark.condition:
                    own.append(([*mark.events, *mark.more], count))
                    site = f"({mark.condition} ? {number + 1} : {site})"
                    events = f"({mark.condition} ? {len(own[-1][0])} : {events})"
                arguments = [str(recorder), site, events, *([mark.payload] if mark.payload else [])]
                if mark.entered:
                    late[mark] = number
                    del arguments[1]
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

    def _assembled(
        self, table: SiteTable, lines: list[tuple[int, str]], slots: str, room: str, kernel: int
    ) -> str:  # fmt: skip
        head = self._raw.index(b'extern "C" __global__')
        bytes_ = WORD_BYTES * (table.line_words - self._markers.line_words)
        chosen, number = table.choice.source("tileops_cta", "tileops_ctas")
        row = f"tileops_block.y + {_WIDE}gridDim.y * tileops_block.z"
        opening = [
            f"const dim3 tileops_block = {self._block()};",
            f"const unsigned long long tileops_cta = tileops_block.x + {_WIDE}gridDim.x * ({row});",
            f"const unsigned long long tileops_ctas = {_WIDE}gridDim.x * gridDim.y * gridDim.z;",
            f"const unsigned long long tileops_number = {number};",
            f"const bool tileops_recorded = ({chosen})" + (f" && tileops_number < {_WIDE}({room});" if room else ";"),
            f"const unsigned long long tileops_line = {_WIDE}({slots}) + {bytes_}ull * tileops_number;",
        ]
        for at, role in enumerate(self._roles):
            place = table.groups[self._first_group(at)].layout
            offset = WORD_BYTES * (place.offset - self._markers.line_words)
            where = f"tileops_line + {offset}, tileops_recorded, gridDim.x, gridDim.y, gridDim.z"
            size = f"{place.capacity}, {place.record_words * WORD_BYTES}, {int(table.keep_last)}"
            if len(role.names) == 1:
                opening.append(f"tileops_open({self._recorder(at)}, {size}, {role.lead}, 0, {where});")
            else:
                each = f"{len(role.names)}, {WORD_BYTES * place.row_words}, {self._own_sites[at]}"
                opening.append(f"tileops_open_each({self._recorder(at)}, {size}, {role.lead}, {each}, {where});")
        recorder = "" if RECORDER in self._raw[:head] else device_source("recorder.cuh")
        added = [(head, f"{table_comment(table, kernel)}\n{recorder}")]
        added += [(self._kernel.start, f"  {line}\n") for line in opening]
        added += [(at, f"{self._indent(at)}{line}\n") for at, line in lines]
        parts, done = [], 0
        for at, text in sorted(added, key=lambda one: one[0]):  # stable: what is put in at one place keeps its order
            parts += [self._raw[done:at], text.encode()]
            done = at
        return b"".join([*parts, self._raw[done:]]).decode()

    def _block(self) -> str:
        """The number of a block, along each axis, as the author's rows have it."""
        for statement in self._kernel.statements:
            swizzled = _SWIZZLED.fullmatch(statement.text)
            if swizzled:
                return swizzled[1]
            if any(call.name == OPEN for call in statement.calls):
                break
        return "blockIdx"

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


def _in_order(calls: Iterable[Mark | Flush | First]) -> Iterator[Mark | Flush | First]:
    """A role's calls, which are decided on in an order that has to be the source's: records would be lost in another.

    Raises:
        UnreadableError: if it is not.
    """
    at = 0
    for call in calls:
        if call.at < at:
            raise UnreadableError("its calls would not stand in the order in which they were thought to run")
        at = call.at
        yield call


def _issue(statements: Sequence[Statement]) -> Statement | None:
    """What issues an asynchronous GEMM, its commit included, of statements that run once each, also in blocks."""
    issue = None
    for statement in statements:
        if statement.kind == "block":
            found = _issue(statement.body)
            if found is not None:
                return found
        names = {call.name for call in statement.calls}
        if any(name.startswith(ASYNCHRONOUS) for name in names):
            issue = statement
        elif issue is not None and COMMIT in names:
            return statement
    return issue


def _ends_with(operation: Operation, inner: Operation) -> bool:
    """Whether nothing follows a wait inside an operation but fences and the arrival that the operation ends with."""
    behind = [part for whole in operation.statements for part in below(whole) if part.start >= inner.end]
    calls = [call for part in behind for call in part.calls]
    return not any(part.writes for part in behind) and all(
        call.name in FENCES or kind_of(call) == ARRIVE for call in calls
    )


def _is_load(operation: Operation) -> bool:
    return operation.kind == LOAD
