"""Order: in the machine code, clocks are read where the markers stand.

Neither nvcc nor ptxas promises to keep a clock read on its side of anything. So kernels are compiled, every clock read
in them is traced to the record that it ends up in, and the record's number to its markers; then a data-flow analysis
says which markers can be the last ones passed before each instruction.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from .sass import Function, Instruction, disassemble, find_nvdisasm, parse

tilelang = pytest.importorskip("tilelang")

import tilelang.language as T  # noqa: E402

from tileops.kernels.gemm import build_gemm, default_config  # noqa: E402
from tileops.kernels.gemm.dense import PASS_CONFIGS  # noqa: E402
from tileops.trace import trace  # noqa: E402
from tileops.trace.sites import ATTRIBUTE, BEGIN, END, SiteTable  # noqa: E402
from tileops.trace.slots import SITE_SHIFT  # noqa: E402

# ---------------------------------------------------------------------------------------------------------------------
# From clock reads to markers

# What a register can hold, as far as it matters here: ("low" or "high", position of the clock read, what was added),
# ("timer",), ("constant", value), or None for anything else.
Value = tuple[Any, ...] | None
UNKNOWN: frozenset[Value] = frozenset([None])
Registers = dict[str, frozenset[Value]]


class ClockReads:
    """The clock reads of a kernel and where each of them is stored.

    Attributes:
        sites: for each clock read that ends up in a record, the site in it; several where it is chosen at run time.
        headers: the clock reads that end up in a row's header, beside the global timer.
        stores: the stores of both.
    """

    def __init__(self, function: Function):
        self.function = function
        self.sites: dict[int, frozenset[int]] = {}
        self.headers: set[int] = set()
        self.stores: set[int] = set()
        self._stored: dict[int, set[int]] = {at: set() for at in function.find("CS2R") if _reads(function, at, "CLOCK")}
        nothing: Registers = {}
        states = function.forward(nothing, self._step, _joined)
        for at in function.find("STG", "ST"):
            self._read_store(at, states[at])
        for clock, stores in self._stored.items():
            self._check_stored(clock, stores)

    def _step(self, at: int, state: Registers) -> Registers:
        instruction = self.function.code[at]
        written = instruction.written
        if not written or instruction.never:
            return state
        values: list[frozenset[Value]]
        if at in self._stored:
            values = [frozenset([(half, at, 0)]) for half in ("low", "high")]
        elif instruction.base == "CS2R" and _reads(self.function, at, "TIMER"):
            values = [frozenset([("timer",)])] * len(written)
        else:
            values = [_computed(instruction, state)] * len(written)
        if instruction.conditional and instruction.base != "CS2R":
            # A choice between two sites. Anything else that is written under a guard is used under the same one.
            values = [
                held | state[name] if name in state and _kinds(held) == _kinds(state[name]) else held
                for name, held in zip(written, values)
            ]
        after = {name: held for name, held in state.items() if name not in written}
        after.update((name, held) for name, held in zip(written, values) if held != UNKNOWN)
        return after

    def _read_store(self, at: int, state: Registers) -> None:
        instruction = self.function.code[at]
        first = re.fullmatch(r"R(\d+)(\.reuse)?", instruction.operands[1])
        if not first:
            return
        low, high, third = (state.get(f"R{int(first[1]) + n}", UNKNOWN) for n in range(3))
        clocks = {value[1] for value in low if value and value[0] == "low"}
        if not clocks:
            return
        assert len(clocks) == len(low), f"{instruction}: may store something else than a clock"
        assert {value[:2] if value else None for value in high} == {("high", clock) for clock in clocks}, (
            f"{instruction}: the halves of what it stores come from different clock reads"
        )
        self.stores.add(at)
        for clock in clocks:
            self._stored[clock].add(at)
            if third == frozenset([("timer",)]):
                self.headers.add(clock)
            else:
                added = {value[2] for value in high if value and value[1] == clock}
                self.sites[clock] = self.sites.get(clock, frozenset()) | {n >> (SITE_SHIFT - 32) for n in added}

    def _check_stored(self, clock: int, stores: set[int]) -> None:
        """Each clock read is stored once on every path from it."""
        code, successors = self.function.code, self.function.successors
        behind = self.function.reachable(successors[clock], stops=stores)
        lost = [at for at in behind if at == clock or code[at].base == "EXIT"]
        assert not lost, f"the clock read at {clock} is not stored on a path to {code[lost[0]]}"
        for store in stores:
            again = self.function.reachable(successors[store], stops=[clock]) & stores
            assert not again, f"the clock read at {clock} is stored by {code[store]} and again"


def _reads(function: Function, at: int, register: str) -> bool:
    return register in function.code[at].operands[-1]


def _kinds(values: frozenset[Value]) -> set[Any]:
    return {value and value[0] for value in values}


def _joined(one: Registers, other: Registers) -> Registers:
    return {name: one.get(name, UNKNOWN) | other.get(name, UNKNOWN) for name in one.keys() | other.keys()}


def _computed(instruction: Instruction, state: Registers) -> frozenset[Value]:
    """What the result of a move or an addition can be."""
    operands = [operand.removesuffix(".reuse") for operand in instruction.operands[1:]]
    if instruction.opcode in ("MOV", "UMOV"):
        terms = operands[:1]
    elif instruction.opcode in ("IMAD.MOV", "IMAD.MOV.U32", "IMAD.U32") and operands[:2] == ["RZ", "RZ"]:
        terms = operands[2:3]
    elif instruction.opcode in ("SEL", "USEL"):
        return _held(operands[0], state) | _held(operands[1], state)
    elif instruction.opcode == "VIADD":
        terms = operands[:2]
    elif instruction.opcode == "IADD3":
        terms = operands[:3]
    elif instruction.opcode == "IMAD.IADD" and operands[1] == "0x1":
        terms = [operands[0], operands[2]]
    else:
        return UNKNOWN
    return frozenset(_sum(choice) for choice in itertools.product(*(_held(term, state) for term in terms)))


def _held(term: str, state: Registers) -> frozenset[Value]:
    if term in ("RZ", "URZ"):
        return frozenset([("constant", 0)])
    if re.fullmatch(r"0x[0-9a-f]+", term):
        return frozenset([("constant", int(term, 16))])
    return state.get(term, UNKNOWN)


def _sum(values: tuple[Value, ...]) -> Value:
    constants = sum(value[1] for value in values if value and value[0] == "constant")
    others = [value for value in values if not value or value[0] != "constant"]
    if not others:
        # Only what is moved: a sum of constants could be a loop's counter, and grow for ever.
        return ("constant", constants) if len(values) == 1 else None
    if len(others) > 1 or others[0] is None:
        return None
    if constants == 0:
        return others[0]
    return ("high", others[0][1], constants) if others[0][0] == "high" and others[0][2] == 0 else None


Marker = frozenset[int]  # the sites of a clock read


class Traced:
    """A kernel's machine code with the markers found in it.

    Attributes:
        last: for each instruction, the markers that can be the last one before it; None stands for the entry.
    """

    def __init__(self, function: Function, table: SiteTable):
        self.function = function
        self.code = function.code
        self.table = table
        self.clocks = ClockReads(function)
        self.last = function.reaching(self.clocks.sites)

    def find(self, *opcodes: str) -> list[int]:
        """Positions of instructions that are not the recorder's stores; no kernel here stores 128 bits of its own."""
        found = self.function.find(*opcodes)
        return [at for at in found if at not in self.clocks.stores and self.code[at].opcode != "STG.E.128"]

    def inside(self, *names: str, group: str | None = None) -> set[int | None]:
        """The sites behind which one is inside one of these ranges; of all groups unless one is given."""
        found: set[int | None] = set()
        for site, events in enumerate(self.table.sites):
            opened = {index for kind, index in events if kind == BEGIN} - {i for kind, i in events if kind == END}
            for one in (self.table.ranges[index] for index in opened):
                if one.name in names and group in (None, self.table.groups[one.group].name):
                    found.add(site)
        assert found, f"no range {names} in {self.table.kernel}"
        return found

    def strays(self, positions: Iterable[int], sites: set[int | None]) -> list[str]:
        """The instructions before which the last marker can be another than one of these sites.

        A marker that chooses its site at run time, by whether a loop goes on, counts as any of them.
        """
        return [
            f"{self.code[at]} behind {self.label(marker)}"
            for at in positions
            for marker in sorted(self.last[at], key=str)
            if not (marker or {None}) & sites
        ]

    def label(self, marker: Marker | None) -> str:
        """A marker's events, such as ``-wait +mma``; ``>`` is the kernel's entry."""
        return " or ".join(" ".join(self.events(site)) for site in sorted(marker)) if marker else ">"

    def events(self, site: int | None) -> list[str]:
        """A site's events, such as ``["-wait", "+mma"]``; ``[">"]`` of the kernel's entry."""
        if site is None:
            return [">"]
        signs = {BEGIN: "+", END: "-"}
        return [signs.get(kind, "=") + self.table.ranges[index].name for kind, index in self.table.sites[site]]

    def check_flow(self, group: str, expected: set[tuple[str, str]]) -> None:
        """Checks which event of a group follows which, from ``>``, the entry, to ``<``, an exit.

        Neither more nor less than the steps in ``expected``: no marker is dropped, read twice or out of turn.
        """
        own = {at: marker for at, marker in self.clocks.sites.items() if self._group(marker) == group}
        last = self.function.reaching(own)
        taken: set[tuple[str, str]] = set()
        for at in [*own, *self.function.find("EXIT")]:
            sites = own.get(at, frozenset())
            taken.update(step for site in sites for step in itertools.pairwise(self.events(site)))
            firsts = {self.events(site)[0] for site in sites} or {"<"}
            for marker in last[at]:
                # One of the sites that a marker can choose from explains how the kernel goes on.
                possible = set(itertools.product((self.events(site)[-1] for site in marker or [None]), firsts))
                taken.update(possible & expected or possible)
        assert taken == expected

    def _group(self, marker: Marker) -> str:
        (group,) = {self.table.ranges[index].group for site in marker for _, index in self.table.sites[site]}
        return self.table.groups[group].name

    def consumers(
        self, sources: Mapping[int, Iterable[str]], uses: Callable[[Instruction], Iterable[str]]
    ) -> dict[int, list[int]]:
        """For each source, the instructions that use its result first; checks that no clock read comes before one."""
        pending = self.function.pending(sources, uses)
        for at in self.clocks.sites:
            late = [str(self.code[source]) for source in pending[at]]
            assert not late, f"{self.label(self.clocks.sites[at])} is read before anything used the result of {late}"
        return {
            source: [at for at in pending if source in pending[at] and set(uses(self.code[at])) & set(results)]
            for source, results in sources.items()
        }

    def check(self) -> None:
        """What holds for every kernel, whatever its ranges enclose."""
        assert {site for marker in self.clocks.sites.values() for site in marker} == set(range(len(self.table.sites)))
        # A row is opened before its first record and closed behind its last.
        headers = self.clocks.headers
        begins = {at for at in headers if self.last[at] == {None}}
        ends = {at for at in headers if not self.function.reachable([at]) & self.clocks.sites.keys()}
        assert begins | ends == headers
        assert len(begins) == len(self.table.groups) <= len(ends)
        # No wait's end is read before a branch has looked at the wait's result, and the branches stand inside as well.
        waits = self.find("SYNCS.PHASECHK")
        branches = self.consumers({at: [self.code[at].operands[0]] for at in waits}, _branch_condition)
        for wait, found in branches.items():
            assert found
            assert all(self.last[at] <= self.last[wait] for at in found)


def _branch_condition(instruction: Instruction) -> list[str]:
    return [instruction.guard.lstrip("!")] if instruction.base in ("BRA", "EXIT") else []


def paths(*texts: str) -> set[tuple[str, str]]:
    """The steps of paths such as ``> +a -a <``."""
    return {step for text in texts for step in itertools.pairwise(text.split())}


# ---------------------------------------------------------------------------------------------------------------------
# Kernels

GEMMS: dict[str, tuple[Any, ...]] = {
    "large": (4096, 4096, 4096),
    "flat": (128, 2112, 7168),
    "not transposed": (4096, 4096, 4096, "bfloat16", False, False),
}
# Three of the producer's four warps have nothing to do, and of all the others' threads none meets a foreign marker.
PRODUCER = paths("> +acquire -acquire +tma -tma +arrive -arrive +acquire", "-arrive <", "> <")
CONSUMER = paths("> +wait -wait +mma -mma +wait", "-mma +drain -drain +epilogue -epilogue <", "> <")


def copies(with_payload: bool) -> Any:
    value = functools.partial(_payload, with_payload)

    @T.prim_func
    def copies(a: T.Tensor((1024, 128), "float16"), flat: T.Tensor((4096,), "float16"), c: T.Tensor((512,), "float16")):
        with T.Kernel(8, threads=256) as bx:
            tile = T.alloc_shared((128, 64), "float16")
            line = T.alloc_shared((512,), "float16")
            full = T.alloc_barrier(1)
            tx = T.get_thread_binding()
            if tx < 128:
                if tx < 32:
                    with trace.group("producer", lead=0):
                        with trace.range("tile", payload=value(bx)):
                            T.tma_copy(a[bx * 128, 64], tile, barrier=full)
                        T.sync_warp()
                        with trace.range("line", payload=value(tx)):
                            T.tma_copy(flat[bx * 512], line, barrier=full)
                        with trace.range("arrive", payload=value(1)):
                            if T.shuffle_elect(32):
                                T.barrier_arrive(full)
            else:
                with trace.group("consumer", lead=128):
                    with trace.range("wait", payload=value(bx)):
                        T.barrier_wait(full, 0)
                    with trace.range("read", payload=value(tx)):
                        c[tx] = tile[tx - 128, 3] + line[tx]

    return copies


def matrices(with_payload: bool) -> Any:
    value = functools.partial(_payload, with_payload)

    @T.prim_func
    def matrices(
        a: T.Tensor((64, 64), "float16"), b: T.Tensor((64, 64), "float16"), c: T.Tensor((64, 64), "float")
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            a_tile = T.alloc_shared((64, 64), "float16")
            b_tile = T.alloc_shared((64, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float")
            T.copy(a, a_tile)
            T.copy(b, b_tile)
            T.clear(acc)
            T.fence_proxy_async()
            T.sync_threads()
            with trace.range("issue", payload=value(1)):
                T.wgmma_gemm(a_tile, b_tile, acc)
            with trace.range("finish", payload=value(-1)):
                T.wait_wgmma(0)
            with trace.range("whole", payload=value(1.5)):
                T.wgmma_gemm(a_tile, b_tile, acc)
                T.wait_wgmma(0)
                T.warpgroup_fence_operand(acc, num_regs=32)
            with trace.range("store", payload=value(2)):
                T.copy(acc, c)

    return matrices


def loads(with_payload: bool) -> Any:
    value = functools.partial(_payload, with_payload)

    @T.prim_func
    def loads(a: T.Tensor((4096,), "float"), b: T.Tensor((4096,), "float"), c: T.Tensor((4096,), "float")):
        with T.Kernel(32, threads=128) as bx:
            tx = T.get_thread_binding()
            i = bx * 128 + tx
            x = T.alloc_local((1,), "float")
            line = T.alloc_shared((128,), "float")
            with trace.range("stored", payload=value(tx)):
                x[0] = a[i]
                for _ in T.unroll(4):
                    x[0] = x[0] * x[0] + b[i]
                line[tx] = x[0]
            with trace.range("sync", payload=value(bx)):
                T.sync_threads()
            with trace.range("divided", payload=value(i)):
                c[i] = line[127 - tx] / line[tx]

    return loads


def asynchronous(with_payload: bool) -> Any:
    value = functools.partial(_payload, with_payload)

    @T.prim_func
    def asynchronous(a: T.Tensor((4096,), "float"), b: T.Tensor((4096,), "float")):
        with T.Kernel(8, threads=128) as bx:
            tx = T.get_thread_binding()
            line = T.alloc_shared((512,), "float")
            with trace.range("issue", payload=value(tx)):
                T.async_copy(a[bx * 512], line)
            with trace.range("wait", payload=value(bx)):
                T.ptx_wait_group(0)
            with trace.range("sync"):
                T.sync_threads()
            with trace.range("read"):
                b[bx * 128 + tx] = line[511 - tx]

    return asynchronous


def atomics(with_payload: bool) -> Any:
    value = functools.partial(_payload, with_payload)

    @T.prim_func
    def atomics(a: T.Tensor((4096,), "float"), b: T.Tensor((4096,), "float")):
        with T.Kernel(32, threads=128) as bx:
            tx = T.get_thread_binding()
            i = bx * 128 + tx
            with trace.range("add", payload=value(tx)):
                T.atomic_add(a[tx], b[i])
            with trace.range("fetch", payload=value(bx)):
                b[i] = T.atomic_add(a[0], 1.0, return_prev=True)

    return atomics


def nested(with_payload: bool) -> Any:
    value = functools.partial(_payload, with_payload)

    @T.prim_func
    def nested(a: T.Tensor((4096,), "float"), n: T.int32):
        with T.Kernel(32, threads=128) as bx:
            tx = T.get_thread_binding()
            for k in T.serial(n):
                with trace.range("outer", payload=value(k)):
                    a[bx * 128 + tx] = 1.0
                    with trace.range("inner", payload=value(bx)):
                        T.sync_threads()
                    if k > bx:
                        trace.record("seen", payload=value(tx))
                        T.thread_return()
                    a[bx * 128 + 127 - tx] = 2.0

    return nested


SINGLE = (copies, matrices, loads, asynchronous, atomics, nested)
SMALL: list[tuple[Any, Any]] = [(build, with_payload) for build in SINGLE for with_payload in (False, True)]


def _payload(wanted: bool, value: Any) -> Any:
    return value if wanted else None


def misplaced(with_payload: bool) -> Any:
    @T.prim_func
    def misplaced(a: T.Tensor((4096,), "float")):
        with T.Kernel(32, threads=128) as bx:
            tx = T.get_thread_binding()
            line = T.alloc_shared((128,), "float")
            with trace.range("sync"):
                line[tx] = a[bx * 128 + tx]
            T.sync_threads()
            a[bx * 128 + tx] = line[127 - tx]

    return misplaced


def deferred(kept: str) -> Any:
    """What a range computes is needed in one branch behind it, and inside the range by what ``kept`` names."""

    @T.prim_func
    def deferred(a: T.Tensor((4096,), "float"), b: T.Tensor((4096,), "float")):
        with T.Kernel(32, threads=128) as bx:
            tx = T.get_thread_binding()
            x = T.alloc_local((2,), "float")
            line = T.alloc_shared((128,), "float")
            line[tx] = 1.0
            T.sync_threads()
            with trace.range("compute"):
                x[0] = a[bx * 128 + tx]
                x[1] = line[127 - tx]
                for _ in T.unroll(8):
                    x[0] = x[0] * 3.0 + 1.0
                if kept == "payload":
                    trace.record("result", payload=x[0] + x[1])
                if kept == "fence":
                    T.warpgroup_fence_operand(x, num_regs=2)
            if bx > 16:
                b[bx * 128 + tx] = x[0] + x[1]

    return deferred


ODD: list[tuple[Any, Any]] = [(misplaced, False), (deferred, ""), (deferred, "payload"), (deferred, "fence")]


# ---------------------------------------------------------------------------------------------------------------------
# Compiling


@pytest.fixture(scope="module")
def compiled() -> dict[str, tuple[Function, SiteTable]]:
    """What some test has compiled already: one run of nvcc takes 10 to 15 s."""
    return {}


@pytest.fixture
def machine_code(
    cuda_target: Any, compile_cubin: Callable[..., Path]
) -> Callable[..., list[tuple[Function, SiteTable]]]:
    """Compiles lowered PrimFuncs together."""
    nvdisasm = find_nvdisasm()
    if nvdisasm is None:
        pytest.skip("needs nvdisasm")

    def build(*funcs: Any) -> list[tuple[Function, SiteTable]]:
        sources: list[str] = []
        for number, func in enumerate(funcs):
            with cuda_target, tilelang.transform.PassContext(config=PASS_CONFIGS):
                source = str(tilelang.lower(func, target=cuda_target).kernel_source)
            sources.append(source.replace("tileops_trace", f"tileops_trace{number}"))  # each brings its own recorder
        functions = disassemble(compile_cubin("\n".join(sources)), nvdisasm)
        assert len(functions) == len(funcs)
        return [
            (functions[f"{func.attrs['global_symbol']}_kernel"], SiteTable.from_json(str(func.attrs[ATTRIBUTE])))
            for func in funcs
        ]

    return build


@pytest.fixture
def small(machine_code: Callable[..., Any], compiled: dict[str, Any]) -> Callable[..., Traced]:
    """``small(build, variant)``: one of the small kernels; the first call compiles them all."""

    def name(build: Any, variant: Any) -> str:
        return f"{build.__name__}_{variant}"

    def get(build: Any, variant: Any) -> Traced:
        if name(build, variant) not in compiled:
            wanted = [*SMALL, *ODD]
            funcs = [trace.lower(b(v)).with_attr("global_symbol", name(b, v)) for b, v in wanted]
            compiled.update(zip((name(b, v) for b, v in wanted), machine_code(*funcs)))
        return Traced(*compiled[name(build, variant)])

    return get


@pytest.fixture
def gemm(machine_code: Callable[..., Any], compiled: dict[str, Any]) -> Callable[[str], Traced]:
    """``gemm(name)``: the production GEMM for one of the problems."""

    def get(name: str) -> Traced:
        if name not in compiled:
            problem = GEMMS[name]
            factory = build_gemm(*problem, traced=True)
            (compiled[name],) = machine_code(factory.get_tir(**default_config(*problem[:3])))
        return Traced(*compiled[name])

    return get


# ---------------------------------------------------------------------------------------------------------------------
# The production GEMM


@pytest.mark.nvcc
@pytest.mark.parametrize("name", GEMMS)
def test_gemm_reads_its_clocks_where_its_markers_stand(gemm: Callable[[str], Traced], name: str) -> None:
    traced = gemm(name)
    traced.check()
    consumers = [group.name for group in traced.table.groups[1:]]
    assert len(consumers) == (1 if name == "flat" else 2)
    # Every marker once on every path: none dropped, none read twice, none out of turn.
    traced.check_flow("producer", PRODUCER)
    for consumer in consumers:
        traced.check_flow(consumer, CONSUMER)
    assert strays_of_gemm(traced) == []
    # Each consumer's WGMMA stands inside its own range.
    products = traced.find("HGMMA")
    own = [[at for at in products if not traced.strays([at], traced.inside("mma", group=one))] for one in consumers]
    assert sorted(itertools.chain(*own)) == products
    assert len({len(found) for found in own}) == 1


def strays_of_gemm(traced: Traced) -> list[str]:
    """The instructions of the production GEMM that stand outside the ranges around them in its source."""
    loads, products = traced.find("UTMALDG"), traced.find("HGMMA")
    waits, arrivals = set(traced.find("SYNCS.PHASECHK")), set(traced.find("SYNCS.ARRIVE"))
    # What waits and arrives on a path with TMA loads is the producer's, and on one with WGMMA a consumer's: the
    # producer waits for empty stages and fills them, a consumer waits for full ones and gives them back.
    produces, consumes = (
        {at for at in waits | arrivals if at in behind or traced.function.reachable([at]) & set(work)}
        for work, behind in ((work, traced.function.reachable(work)) for work in (loads, products))
    )
    assert not produces & consumes
    assert produces | consumes == waits | arrivals
    expected = [
        (loads, traced.inside("tma")),
        (waits & produces, traced.inside("acquire")),
        (waits & consumes, traced.inside("wait")),
        (arrivals & produces, traced.inside("tma", "arrive")),
        (arrivals & consumes, traced.inside("mma")),
        (products, traced.inside("mma")),
        (traced.find("WARPGROUP.ARRIVE"), traced.inside("mma")),
        (traced.find("WARPGROUP.DEPBAR"), traced.inside("mma", "drain")),
        # The sums are converted, staged and stored in the epilogue. TMA's stores are waited for with DEPBAR.
        (traced.find("F2FP", "STS", "MEMBAR", "UTMASTG", "UTMACMDFLUSH", "DEPBAR"), traced.inside("epilogue")),
        (traced.find("BAR"), traced.inside("epilogue") | {None}),  # and one at the kernel's start
    ]
    assert all(positions for positions, _ in expected)
    return [stray for positions, sites in expected for stray in traced.strays(sorted(positions), sites)]


# ---------------------------------------------------------------------------------------------------------------------
# Single ranges

# For each kernel, the ranges that instructions have to stand in, and its paths.
RANGES: dict[str, dict[str, tuple[str, ...]]] = {
    "copies": {
        "UTMALDG": ("tile",),
        "UBLKCP": ("line",),
        "SYNCS.ARRIVE.TRANS64.RED": ("tile", "line"),
        "SYNCS.ARRIVE.TRANS64.A1T0": ("arrive",),
        "SYNCS.PHASECHK": ("wait",),
        "LDS": ("read",),
        "STG": ("read",),
    },
    "matrices": {
        "HGMMA": ("issue", "whole"),
        "WARPGROUP.ARRIVE": ("issue", "whole"),
        "WARPGROUP.DEPBAR": ("finish", "whole"),
        "STG": ("store",),
    },
    "loads": {
        "LDG": ("stored",),
        "FFMA": ("stored", "divided"),
        "STS": ("stored",),
        "BAR": ("sync",),
        "LDS": ("divided",),
        "MUFU.RCP": ("divided",),
        "CALL": ("divided",),
        "RET": ("divided",),
        "STG": ("divided",),
    },
    "asynchronous": {
        "LDGSTS": ("issue",),
        "DEPBAR": ("wait",),
        "BAR": ("wait", "sync"),
        "LDS": ("read",),
        "STG": ("read",),
    },
    "atomics": {"LDG": ("add",), "REDG": ("add",), "ATOM": ("fetch",), "STG": ("fetch",)},
    "nested": {"BAR": ("inner",)},
}
PATHS = {
    "copies": {
        "producer": paths("> +tile -tile +line -line +arrive -arrive <", "> <"),
        "consumer": paths("> +wait -wait +read -read <", "> <"),
    },
    "matrices": {"main": paths("> +issue -issue +finish -finish +whole -whole +store -store <")},
    "loads": {"main": paths("> +stored -stored +sync -sync +divided -divided <")},
    "asynchronous": {"main": paths("> +issue -issue +wait -wait +sync -sync +read -read <")},
    "atomics": {"main": paths("> +add -add +fetch -fetch <")},
    "nested": {"main": paths("> +outer +inner -inner -outer +outer", "-inner =seen <", "-outer <", "> <")},
}


@pytest.mark.nvcc
@pytest.mark.parametrize(("build", "with_payload"), SMALL)
def test_single_ranges_enclose_what_they_were_written_around(
    small: Callable[..., Traced], build: Any, with_payload: bool
) -> None:
    traced = small(build, with_payload)
    traced.check()
    for group in traced.table.groups:
        traced.check_flow(group.name, PATHS[build.__name__][group.name])
    stray: list[str] = []
    for opcode, names in RANGES[build.__name__].items():
        positions = traced.find(opcode)
        inside = traced.inside(*names)
        assert inside <= {site for at in positions for marker in traced.last[at] for site in marker or ()}, opcode
        stray += traced.strays(positions, inside)
    assert stray == []


@pytest.mark.nvcc
@pytest.mark.parametrize(("build", "with_payload"), [(b, p) for b, p in SMALL if b in (loads, atomics)])
def test_what_is_loaded_is_used_before_its_range_ends(
    small: Callable[..., Traced], build: Any, with_payload: bool
) -> None:
    traced = small(build, with_payload)
    sources = {at: traced.code[at].written for at in traced.find("LDG", "LDS", "ATOM") if traced.code[at].written}
    users = traced.consumers(sources, lambda instruction: instruction.read)
    assert sources
    assert all(users.values())
    for source, found in users.items():
        assert all(traced.last[at] == traced.last[source] for at in found)


# ---------------------------------------------------------------------------------------------------------------------
# That these checks can fail

DOCTORED = [
    # what is moved, the marker that it is moved across, and whether to before or behind it
    ("UTMALDG", "+tma", "before"),
    ("SYNCS.ARRIVE", "+tma", "before"),
    ("SYNCS.PHASECHK", "+acquire", "before"),
    ("SYNCS.PHASECHK", "+wait", "before"),
    ("HGMMA", "+mma", "before"),
    ("UTMALDG", "-tma", "behind"),
    ("HGMMA", "-mma", "behind"),
    ("WARPGROUP.DEPBAR", "-mma", "behind"),
    ("WARPGROUP.DEPBAR", "-drain", "behind"),
    ("F2FP", "+epilogue", "before"),
    ("UTMASTG", "-epilogue", "behind"),
    ("DEPBAR", "-epilogue", "behind"),
]


@pytest.mark.nvcc
@pytest.mark.parametrize(("opcode", "event", "side"), DOCTORED)
def test_an_instruction_swapped_with_a_clock_read_is_noticed(
    gemm: Callable[[str], Traced], opcode: str, event: str, side: str
) -> None:
    traced = gemm("flat")
    marks = sorted(at for at, site in traced.clocks.sites.items() if event in traced.label(site).split())
    found = traced.find(opcode)
    if side == "before":
        mark = next(mark for mark in marks if any(at > mark for at in found))
        at, to = next(at for at in found if at > mark), mark
    else:
        mark = next(mark for mark in marks if any(at < mark for at in found))
        at, to = next(at for at in reversed(found) if at < mark), mark + 1
    moved = Traced(traced.function.moved(at, to), traced.table)
    assert len(moved.code) == len(traced.code)
    assert any(stray.startswith(f"{traced.code[at]} behind ") for stray in strays_of_gemm(moved))


@pytest.mark.nvcc
def test_a_clock_read_before_the_branch_on_a_waits_result_is_noticed(gemm: Callable[[str], Traced]) -> None:
    traced = gemm("flat")
    clock = min(at for at, site in traced.clocks.sites.items() if "-wait" in traced.label(site))
    branch = max(at for at in traced.find("BRA") if at < clock)
    assert traced.code[branch].conditional
    moved = Traced(traced.function.moved(clock, branch), traced.table)
    with pytest.raises(AssertionError, match=r"-wait.* is read before anything used the result of .*PHASECHK"):
        moved.check()


@pytest.mark.nvcc
def test_a_clock_read_that_is_missing_or_there_twice_is_noticed(gemm: Callable[[str], Traced]) -> None:
    traced = gemm("flat")
    for clock in traced.clocks.sites:
        with pytest.raises(AssertionError):
            checked_flow(traced.function.without(clock), traced.table)
    for clock in traced.clocks.sites:
        line = traced.code[clock].line
        twice = Function("gemm", traced.function.lines[: line + 1] + traced.function.lines[line:])
        with pytest.raises(AssertionError, match="is not stored"):
            checked_flow(twice, traced.table)


def checked_flow(function: Function, table: SiteTable) -> None:
    traced = Traced(function, table)
    traced.check()
    traced.check_flow("producer", PRODUCER)
    traced.check_flow("consumer", CONSUMER)


@pytest.mark.nvcc
def test_a_marker_on_the_wrong_side_is_noticed(small: Callable[..., Traced]) -> None:
    traced = small(misplaced, False)
    traced.check()
    (barrier,) = traced.find("BAR")
    assert traced.strays([barrier], traced.inside("sync")) == [f"{traced.code[barrier]} behind -sync"]


@pytest.mark.nvcc
def test_what_only_a_later_branch_needs_is_computed_there(small: Callable[..., Traced]) -> None:
    """It is the work that moves, as docs/markers.md tells: a reordering that is real, and that has to be seen."""
    traced = small(deferred, "")
    traced.check()
    work = traced.find("LDG", "LDS", "FFMA")
    assert len(work) == 10
    assert traced.strays(work, traced.inside("compute")) == [f"{traced.code[at]} behind -compute" for at in work]


@pytest.mark.nvcc
@pytest.mark.parametrize("kept", ["payload", "fence"])
def test_what_a_range_uses_itself_is_computed_inside(small: Callable[..., Traced], kept: str) -> None:
    traced = small(deferred, kept)
    traced.check()
    work = traced.find("LDG", "LDS", "FFMA")
    assert len(work) == 10
    assert traced.strays(work, traced.inside("compute")) == []
    sources = {at: traced.code[at].written for at in traced.find("LDG", "LDS")}
    if kept == "fence":
        # A fence is no instruction: the value that goes into nothing else inside is loaded there, but not waited for.
        with pytest.raises(AssertionError, match=r"-compute is read before anything used the result of .*LDS"):
            traced.consumers(sources, lambda instruction: instruction.read)
        sources = {at: traced.code[at].written for at in traced.find("LDG")}
    assert all(traced.consumers(sources, lambda instruction: instruction.read).values())


# ---------------------------------------------------------------------------------------------------------------------
# The reader, on code written by hand

HEAD = """\t.section\t.text.k,"ax",@progbits\nk:\n"""


def function(text: str) -> Function:
    """One instruction or label a line; addresses are added."""
    lines = [line.strip() for line in text.strip().splitlines()]
    code = (line if line.endswith(":") else f"        /*{at:04x}*/   {line} ;" for at, line in enumerate(lines))
    return parse(HEAD + "\n".join(code))["k"]


def last_ones(code: Function) -> dict[str, set[str | None]]:
    """For each ``NOP n``, the ``CS2R m`` that can be the last one before it, by their numbers."""
    reaching = code.reaching({at: code.code[at].operands[0] for at in code.find("CS2R")})
    return {code.code[at].operands[0]: set(reaching[at]) for at in code.find("NOP")}


def test_reader_follows_slow_paths_out_of_line() -> None:
    code = function("""
        CS2R 1
        TRY:
        SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R9+URZ], R20
        @!P0 BRA `(SLOW)
        BACK:
        NOP waited
        CS2R 2
        @P1 EXIT
        NOP stayed
        BRA `(END)
        SLOW:
        NOP slow
        @!P0 BRA `(SLOW)
        BRA `(BACK)
        NOP never
        END:
        CS2R 3
        EXIT
        CS2R 4
        """)
    assert last_ones(code) == {"waited": {"1"}, "stayed": {"2"}, "slow": {"1"}}
    assert [code.code[at].operands for at in code.find("CS2R")] == [("1",), ("2",), ("3",)]


def test_reader_joins_what_may_have_been_passed() -> None:
    code = function("""
        BRA.DIV UR4, `(APART)
        CS2R 1
        JOIN:
        NOP joined
        @P0 CS2R 3
        NOP guarded
        @!PT CS2R 4
        NOP padding
        AGAIN:
        NOP loop
        CS2R 5
        @P1 BRA `(AGAIN)
        EXIT
        APART:
        BSSY B0, `(AFTER)
        WARPSYNC.COLLECTIVE R2, `(COLLECTED)
        CS2R 2
        ENDCOLLECTIVE
        COLLECTED:
        BSYNC B0
        AFTER:
        BRA `(JOIN)
        """)
    assert last_ones(code) == {
        "joined": {"1", "2", None},
        "guarded": {"1", "2", "3", None},
        "padding": {"1", "2", "3", None},
        "loop": {"1", "2", "3", "5", None},
    }


def test_reader_passes_calls_and_enters_them() -> None:
    code = function("""
        CS2R 1
        CALL.REL.NOINC `($k$divide)
        NOP first
        CS2R 2
        CALL.REL.NOINC `($k$divide)
        NOP second
        EXIT
        $k$divide:
        NOP called
        RET.REL.NODEC R4 `(k)
        """)
    assert last_ones(code) == {"first": {"1"}, "second": {"2"}, "called": {"1", "2"}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("BRX R4 -0x10", "cannot follow BRX"),
        ("BRA `(NOWHERE)", r"no label for BRA `\(NOWHERE\)"),
        ("BSSY B0, `(AWAY)\nBSYNC B0\nNOP\nAWAY:\nEXIT", "BSYNC B0 does not stand where its BSSY joins"),
    ],
)
def test_reader_refuses_what_it_cannot_follow(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        function(text).find("NOP")


@pytest.mark.parametrize(
    ("text", "written", "read"),
    [
        ("CS2R R4, SR_CLOCKLO", "R4 R5", ""),
        ("CS2R.32 R4, SR_CLOCKLO", "R4", ""),
        ("@!P1 STG.E.64 desc[UR16][R2.64+0x40], R4", "", "P1 UR16 R2 R3 R4"),
        ("IMAD.WIDE R12, R3.reuse, 0x8, R12", "R12 R13", "R3 R12"),
        ("LDG.E.128.CONSTANT R4, desc[UR6][R8.64]", "R4 R5 R6 R7", "UR6 R8 R9"),
        ("SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [R9+URZ+0x18], R20", "", "P1 R9 R20"),
        ("ISETP.NE.OR P0, PT, R3, 0x100, !P0", "", "P0 R3"),
        ("LEA R2, P3, R19, R12, 0x3", "R2", "P3 R19 R12"),
        ("ATOM.E.ADD.F32.FTZ.RN.STRONG.GPU P1, R9, desc[UR6][R6.64], R8", "R9", "P1 UR6 R6 R7 R8"),
        ("ULDC.64 UR4, c[0x0][0x198]", "UR4 UR5", ""),
        ("HGMMA.64x8x16.F32 R24, gdesc[UR4], R24, gsb0", "R24 R25 R26 R27", "UR4 R24"),
        ("BAR.SYNC R0, R1", "", "R0 R1"),
    ],
)
def test_reader_knows_registers(text: str, written: str, read: str) -> None:
    (instruction,) = function(text).code
    assert instruction.written == tuple(written.split())
    assert instruction.read == set(read.split())


def traced_clocks(text: str) -> ClockReads:
    return ClockReads(function(text.replace("CLOCK", "CS2R R4, SR_CLOCKLO").replace("; ", "\n") + "\nEXIT"))


@pytest.mark.parametrize(
    ("text", "sites"),
    [
        ("CLOCK; STG.E.64 [R2.64+0x40], R4", {0}),
        ("CLOCK; VIADD R5, R5, 0x30000; STG.E.64 [R2.64], R4", {3}),
        ("CLOCK; IADD3 R9, R5, 0x30000, RZ; MOV R8, R4; @P0 STG.E.64 [R2.64], R8", {3}),
        ("MOV R7, 0x20000; CLOCK; IMAD.IADD R5, R5, 0x1, R7; STG.E.128 [R2.64], R4", {2}),
        ("UMOV UR7, 0x20000; CLOCK; VIADD R5, R5, UR7; STG.E.64 [R2.64], R4", {2}),
        ("SEL R7, RZ, 0x10000, P0; CLOCK; VIADD R5, R5, R7; STG.E.64 [R2.64], R4", {0, 1}),
        ("CLOCK; VIADD R9, R5, 0x10000; @P0 IMAD.MOV R9, RZ, RZ, R5; MOV R8, R4; STG.E.64 [R2.64], R8", {0, 1}),
        ("CLOCK; @P0 BRA `(B); VIADD R5, R5, 0x10000; B:; STG.E.64 [R2.64], R4", {0, 1}),
    ],
)
def test_clock_reads_are_traced_to_their_records(text: str, sites: set[int]) -> None:
    reads = traced_clocks(text)
    assert list(reads.sites.values()) == [sites]
    assert not reads.headers


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CLOCK", "not stored on a path to EXIT"),
        ("CLOCK; @P0 EXIT; STG.E.64 [R2.64], R4", "not stored on a path to @P0 EXIT"),
        ("CLOCK; MOV R4, R8; STG.E.64 [R2.64], R4", "not stored"),
        ("CLOCK; IMAD R5, R5, R5, R5; STG.E.64 [R2.64], R4", "halves"),
        ("CLOCK; STG.E.64 [R2.64], R4; STG.E.64 [R2.64+0x8], R4", "and again"),
        ("A:; CLOCK; @P0 BRA `(A); STG.E.64 [R2.64], R4", "not stored on a path to CS2R"),
        ("CLOCK; @P0 BRA `(B); MOV R4, R8; B:; STG.E.64 [R2.64], R4", "something else than a clock"),
    ],
)
def test_clock_reads_that_come_to_nothing_are_noticed(text: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        traced_clocks(text)
