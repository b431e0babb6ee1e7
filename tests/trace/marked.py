"""Kernels with markers in every kind of place. Each is made by a function of the ``trace`` to use.

``unmarked()`` gives the same module with the markers taken out of its text.
"""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from typing import Any

import tilelang.language as T

M = N = K = 256
BM, BN, BK = 64, 64, 32
HALF, FLOAT = "float16", "float32"


def first_and_last(trace: Any) -> Any:
    @T.prim_func
    def kernel(a: T.Tensor((M,), FLOAT), b: T.Tensor((M,), FLOAT)):
        with T.Kernel(M // BM, threads=BM) as bx:
            trace.record("first")
            for i in T.Parallel(BM):
                b[bx * BM + i] = a[bx * BM + i] * 2.0
            trace.record("last")

    return kernel


def nothing_else(trace: Any) -> Any:
    @T.prim_func
    def kernel(a: T.Tensor((M,), FLOAT), b: T.Tensor((M,), FLOAT)):
        with T.Kernel(M // BM, threads=BM) as bx:
            with trace.range("a"):
                with trace.range("b", payload=bx):
                    pass
            b[bx] = a[bx]

    return kernel


def serial_loops(trace: Any) -> Any:
    @T.prim_func
    def kernel(a: T.Tensor((M, N), FLOAT), b: T.Tensor((M, N), FLOAT)):
        with T.Kernel(N // BN, M // BM, threads=128) as (bx, by):
            tile = T.alloc_shared((BM, BN), FLOAT)
            acc = T.alloc_fragment((BM, BN), FLOAT)
            T.clear(acc)
            with trace.group("g", lead=5):
                for i in T.serial(4):
                    trace.record("loop's first", payload=i)
                    T.copy(a[by * BM, bx * BN], tile)
                    trace.record("loop's last", payload=i * 2 - 7)
                for i in T.serial(4):
                    trace.record("loop's only")
                for i in range(3):
                    with trace.range("python range", payload=T.cast(i, "float32") * 0.5):
                        for x, y in T.Parallel(BM, BN):
                            acc[x, y] += tile[x, y]
                for i in T.serial(0, 8, 2):
                    outer = trace.range_start("stepped", payload=i)
                    inner = trace.range_start("inner", lane="other")
                    T.copy(tile, acc)
                    trace.range_end(outer)
                    trace.range_end(inner)
            with trace.range("unrolled"):
                for i in T.unroll(4):
                    with trace.range("turn", payload=i):
                        for x, y in T.Parallel(BM, BN):
                            acc[x, y] = acc[x, y] + i
            for i in ["x", "y"]:
                with trace.range(f"python {i}"):
                    T.copy(acc, b[by * BM, bx * BN])
            trace.dag("turn", "stepped")

    return kernel


def branches(trace: Any) -> Any:
    @T.prim_func
    def kernel(a: T.Tensor((M,), FLOAT), b: T.Tensor((M,), FLOAT), n: T.int32):
        with T.Kernel(M // BM, threads=BM) as bx:
            tx = T.get_thread_binding()
            count = T.alloc_var("int32")
            count = 0
            if bx == 0:
                trace.record("first of an arm")
                b[tx] = 1.0
            else:
                b[tx + bx * BM] = 2.0
                trace.record("last of the other", payload=bx > 1)
            if n > 3:
                trace.record("only statement of an arm")
            if n > 4:
                b[tx] = 3.0
            else:
                trace.record("only statement of the other arm")
            if n > 5:
                with trace.range("in both"):
                    trace.record("arms")
            else:
                trace.record("only")
            token = trace.range_start("ended in both arms")
            if n > 6:
                b[tx] = 4.0
                trace.range_end(token)
            else:
                trace.range_end(token)
                b[tx] = 5.0
            while count < n:
                trace.record("while's first", payload=count)
                count = count + 1
                trace.record("while's last")
                if count == 7:
                    trace.record("before break")
                    break
            with trace.range("around a while"):
                while count < n + 2:
                    count += 1
            if tx == 3:
                trace.record("before return")
                T.thread_return()
            trace.record("behind return", payload=n)
            b[bx * BM + tx] = a[bx * BM + tx] + T.cast(count, FLOAT)

    return kernel


def macros(trace: Any) -> Any:
    @T.macro
    def scaled(a, b, at, factor):
        with trace.range("in a macro", payload=at):
            b[at] = a[at] * factor
        trace.record("macro's last")

    @T.macro
    def only_markers():
        trace.record("macro's only")

    @T.prim_func
    def kernel(a: T.Tensor((M,), FLOAT), b: T.Tensor((M,), FLOAT)):
        with T.Kernel(M // BM, threads=BM) as bx:
            tx = T.get_thread_binding()
            only_markers()
            scaled(a, b, bx * BM + tx, 2.0)
            for i in T.serial(3):
                scaled(a, b, bx * BM + tx, i)
                only_markers()

    return kernel


def pipelined(trace: Any) -> Any:
    @T.prim_func
    def kernel(a: T.Tensor((M, K), HALF), b: T.Tensor((K, N), HALF), c: T.Tensor((M, N), HALF)):
        with T.Kernel(N // BN, M // BM, threads=128) as (bx, by):
            trace.record("first")
            a_tile = T.alloc_shared((BM, BK), HALF)
            b_tile = T.alloc_shared((BK, BN), HALF)
            acc = T.alloc_fragment((BM, BN), "float")
            with trace.range("clear"):
                T.clear(acc)
            trace.record("before")
            with trace.range("loop"):
                for ki in T.Pipelined(K // BK, num_stages=3):
                    trace.record("loop's first", payload=ki)
                    with trace.range("copy", lane="copy"):
                        T.copy(a[by * BM, ki * BK], a_tile)
                        trace.record("between copies")
                        T.copy(b[ki * BK, bx * BN], b_tile)
                    if ki == 0:
                        trace.record("only in the first turn")
                    with trace.range("mma", payload=-ki):
                        T.gemm(a_tile, b_tile, acc)
                    trace.record("loop's last")
            trace.record("after")
            with trace.range("store"):
                T.copy(acc, c[by * BM, bx * BN])
            trace.dag("copy", "mma")
            trace.record("last")

    return kernel


def guarded(trace: Any) -> Any:
    @T.prim_func
    def kernel(
        a: T.Tensor((M, K), HALF), b: T.Tensor((K, N), HALF), c: T.Tensor((M, N), HALF), wanted: T.Tensor((K,), "int32")
    ):
        with T.Kernel(N // BN, M // BM, threads=128) as (bx, by):
            a_tile = T.alloc_shared((BM, BK), HALF)
            b_tile = T.alloc_shared((BK, BN), HALF)
            acc = T.alloc_fragment((BM, BN), "float")
            T.clear(acc)
            for ki in T.Pipelined(K // BK, num_stages=2):
                with trace.range("turn"):
                    at = ki * BK
                    if wanted[ki] > 0:
                        with trace.range("copy"):
                            T.copy(a[by * BM, at], a_tile)
                            T.copy(b[at, bx * BN], b_tile)
                        T.gemm(a_tile, b_tile, acc)
                        trace.record("done")
            T.copy(acc, c[by * BM, bx * BN])

    return kernel


def persistent(trace: Any) -> Any:
    @T.prim_func
    def kernel(a: T.Tensor((M, K), HALF), b: T.Tensor((K, N), HALF), c: T.Tensor((M, N), HALF)):
        with T.Kernel(4, threads=128) as bx:
            a_tile = T.alloc_shared((BM, BK), HALF)
            b_tile = T.alloc_shared((BK, BN), HALF)
            acc = T.alloc_fragment((BM, BN), "float")
            for tile in T.serial(M // BM):
                with trace.range("tile", payload=tile):
                    T.clear(acc)
                    for ki in T.Pipelined(K // BK, num_stages=2):
                        with trace.range("copy"):
                            T.copy(a[tile * BM, ki * BK], a_tile)
                            T.copy(b[ki * BK, bx * BN], b_tile)
                        with trace.range("mma"):
                            T.gemm(a_tile, b_tile, acc)
                    T.copy(acc, c[tile * BM, bx * BN])

    return kernel


def indirect(trace: Any) -> Any:
    @T.prim_func
    def kernel(
        a: T.Tensor((M, K), HALF), b: T.Tensor((K, N), HALF), c: T.Tensor((M, N), HALF), order: T.Tensor((K,), "int32")
    ):
        with T.Kernel(N // BN, M // BM, threads=128) as (bx, by):
            a_tile = T.alloc_shared((BM, BK), HALF)
            b_tile = T.alloc_shared((BK, BN), HALF)
            acc = T.alloc_fragment((BM, BN), "float")
            T.clear(acc)
            for ki in T.Pipelined(K // BK, num_stages=2):
                with trace.range("look up"):
                    at = order[ki]
                with trace.range("copy"):
                    T.copy(a[by * BM, at * BK], a_tile)
                    T.copy(b[at * BK, bx * BN], b_tile)
                with trace.range("mma"):
                    T.gemm(a_tile, b_tile, acc)
                with trace.range("scale"):
                    for x, y in T.Parallel(BM, BN):
                        acc[x, y] = acc[x, y] * 0.5
            T.copy(acc, c[by * BM, bx * BN])

    return kernel


def scheduled(trace: Any) -> Any:
    @T.prim_func
    def kernel(a: T.Tensor((M, K), HALF), b: T.Tensor((K, N), HALF), c: T.Tensor((M, N), HALF)):
        with T.Kernel(N // BN, M // BM, threads=128) as (bx, by):
            a_tile = T.alloc_shared((BM, BK), HALF)
            b_tile = T.alloc_shared((BK, BN), HALF)
            acc = T.alloc_fragment((BM, BN), "float")
            T.clear(acc)
            for ki in T.Pipelined(K // BK, order=[0, 1, 2], stage=[0, 0, 1]):
                with trace.range("copy"):
                    T.copy(a[by * BM, ki * BK], a_tile)
                    T.copy(b[ki * BK, bx * BN], b_tile)
                with trace.range("mma"):
                    T.gemm(a_tile, b_tile, acc)
            T.copy(acc, c[by * BM, bx * BN])

    return kernel


def nested(trace: Any) -> Any:
    @T.prim_func
    def kernel(a: T.Tensor((M, K), HALF), b: T.Tensor((K, N), HALF), c: T.Tensor((M, N), HALF)):
        with T.Kernel(N // BN, M // BM, threads=128) as (bx, by):
            a_tile = T.alloc_shared((BM, BK), HALF)
            b_tile = T.alloc_shared((BK, BN), HALF)
            acc = T.alloc_fragment((BM, BN), "float")
            T.clear(acc)
            for ki in T.Pipelined(K // BK, order=[0, 1, 2, 3], stage=[0, 0, 1, 1]):
                T.copy(a[by * BM, ki * BK], a_tile)
                T.copy(b[ki * BK, bx * BN], b_tile)
                for turn in T.serial(2):
                    with trace.range("scale", payload=turn):
                        for x, y in T.Parallel(BM, BN):
                            acc[x, y] = acc[x, y] * 0.5
                T.gemm(a_tile, b_tile, acc)
            T.copy(acc, c[by * BM, bx * BN])

    return kernel


def loads_by_hand(trace: Any) -> Any:
    @T.prim_func
    def kernel(a: T.Tensor((M, K), HALF), b: T.Tensor((K, N), HALF), c: T.Tensor((M, N), HALF)):
        with T.Kernel(N // BN, M // BM, threads=128) as (bx, by):
            a_tile = T.alloc_shared((BM, BK), HALF)
            b_tile = T.alloc_shared((BK, BN), HALF)
            acc = T.alloc_fragment((BM, BN), "float")
            T.clear(acc)
            for ki in T.Pipelined(K // BK, num_stages=2):
                with trace.range("copy"):
                    T.copy(a[by * BM, ki * BK], a_tile)
                with trace.range("load"):
                    for x, y in T.Parallel(BK, BN):
                        b_tile[x, y] = b[ki * BK + x, bx * BN + y] * T.float16(2)
                with trace.range("mma"):
                    T.gemm(a_tile, b_tile, acc)
            T.copy(acc, c[by * BM, bx * BN])

    return kernel


def on_the_cpu(trace: Any) -> Any:
    @T.macro
    def load(a, tile, by, ki):
        with trace.range("load", lane="memory", payload=ki):
            T.copy(a[by * 16, ki * 16], tile)

    @T.prim_func
    def kernel(a: T.Tensor((64, 64), FLOAT), b: T.Tensor((64, 64), FLOAT), c: T.Tensor((64, 64), FLOAT)):
        with T.Kernel(4, 4, threads=1) as (bx, by):
            trace.record("first")
            a_tile = T.alloc_local((16, 16), FLOAT)
            b_tile = T.alloc_local((16, 16), FLOAT)
            acc = T.alloc_local((16, 16), FLOAT)
            with trace.group("cpu", lead=0):
                with trace.range("clear"):
                    T.clear(acc)
                for ki in T.serial(4):
                    load(a, a_tile, by, ki)
                    load(b, b_tile, ki, bx)
                    if ki == 2:
                        trace.record("third", payload=T.cast(ki, FLOAT) * 0.25)
                    whole = trace.range_start("multiply")
                    for i, j, k in T.grid(16, 16, 16):
                        acc[i, j] += a_tile[i, k] * b_tile[k, j]
                    trace.range_end(whole)
                for ki in T.Pipelined(2, num_stages=2):
                    with trace.range("again"):
                        T.copy(a[by * 16, ki * 16], a_tile)
                    with trace.range("add"):
                        for i, j in T.grid(16, 16):
                            acc[i, j] += a_tile[i, j]
                with trace.range("store"):
                    T.copy(acc, c[by * 16, bx * 16])
            trace.dag("load", "multiply")
            trace.record("last")

    return kernel


ON_CUDA = [
    first_and_last, nothing_else, serial_loops, branches, macros, pipelined, guarded, persistent, indirect, scheduled,
    nested, loads_by_hand,
]  # fmt: skip
PIPELINED = [pipelined, guarded, persistent, indirect, scheduled, nested, loads_by_hand]
ON_CPU = [on_the_cpu]


class _Unmark(ast.NodeTransformer):
    def visit_With(self, node: ast.With) -> Any:
        self.generic_visit(node)
        if all(_is_marker(item.context_expr) for item in node.items):
            return node.body
        return self._filled(node)

    def visit_Expr(self, node: ast.Expr) -> Any:
        return None if _is_marker(node.value) else node

    def visit_Assign(self, node: ast.Assign) -> Any:
        return None if _is_marker(node.value) else node

    def _filled(self, node: Any) -> Any:
        self.generic_visit(node)
        node.body = node.body or [ast.Pass()]
        return node

    visit_For = visit_If = visit_While = visit_FunctionDef = _filled


def _is_marker(call: ast.expr) -> bool:
    return (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "trace"
    )


def unmarked(folder: Path, text: str | None = None) -> Any:
    """A module (this one, if no other text is given) without its markers, written to and loaded from ``folder``."""
    tree = ast.fix_missing_locations(_Unmark().visit(ast.parse(text or Path(__file__).read_text())))
    return loaded(folder, ast.unparse(tree))


def loaded(folder: Path, text: str) -> Any:
    """A module made of a text: TileLang reads a kernel's source, so that it has to be in a file."""
    number = len(list(folder.glob("kernels*.py")))
    path = folder / f"kernels{number}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Mark(ast.NodeTransformer):
    """Puts markers into the kernels of a module's text, where ``choices`` says so.

    There is one choice for each statement inside a launch, outside of ``T.Parallel``, in the order of the text:
    ``record`` ahead of it, ``range``, ``group`` or ``both`` around it, ``start`` ahead of it with the end behind the
    block's last statement, or nothing.
    """

    def __init__(self, choices: list[str]):
        self.choices = iter(choices)
        self.count = 0
        self.inside = False

    def visit_With(self, node: ast.With) -> Any:
        launch = "T.Kernel" in ast.unparse(node.items[0])
        outside, self.inside = self.inside, self.inside or launch
        self._fill(node, "body")
        self.inside = outside
        return node

    def visit_For(self, node: ast.For) -> Any:
        if "T.Parallel" not in ast.unparse(node.iter):
            self._fill(node, "body")
        return node

    def visit_If(self, node: ast.If) -> Any:
        self._fill(node, "body")
        self._fill(node, "orelse")
        return node

    def _fill(self, node: Any, block: str) -> None:
        statements = getattr(node, block)
        if not self.inside:
            self.generic_visit(node)
            return
        made, behind = [], []
        for statement in statements:
            self.count += 1
            name, number = repr(f"m{self.count}"), self.count
            choice = next(self.choices, "")
            inner = self.visit(statement) if isinstance(statement, (ast.With, ast.For, ast.If)) else statement
            if choice in ("range", "group", "both"):
                around = {"range": f"trace.range({name})", "group": f"trace.group({name}, lead=3)"}
                items = [around[kind] for kind in ("group", "range") if choice in (kind, "both")]
                with_ = ast.parse(f"with {', '.join(items)}: pass").body[0]
                with_.body = [inner]
                inner = with_
            if choice == "record":
                made += ast.parse(f"trace.record({name}, payload={number})").body
            if choice == "start":
                made += ast.parse(f"t{number} = trace.range_start({name})").body
                behind = ast.parse(f"trace.range_end(t{number})").body + behind
            made.append(inner)
        setattr(node, block, made + behind)


def remarked(folder: Path, text: str, choices: list[str]) -> Any:
    """The module of a text without markers, with markers where ``choices`` says."""
    return loaded(folder, ast.unparse(ast.fix_missing_locations(Mark(choices).visit(ast.parse(text)))))
