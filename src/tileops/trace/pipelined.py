"""Markers in ``T.Pipelined`` loops, kept from disturbing what TileLang makes of such a loop.

TileLang plans a pipelined loop by its list of statements: it peels scalar bindings off the front, looks into a body
that is one ``if``, schedules copies apart from what uses them, and takes ``order=`` and ``stage=`` as one entry a
statement. A marker that counts as a statement gets in the way of all four. Found with TileLang 0.1.15: a marker ahead
of ``index = table[k]`` made specialization fail on an undefined variable, one beside a guarded body prevented it, one
behind the last ``T.gemm`` gave a software pipeline another depth, and explicit orders were refused for their length.

So markers are tied to a statement that computes in registers, the only kind that no pass moves, splits or recognizes
by its form: the two become one statement, and the list is the one that TileLang would have seen without tracing. On
the way there a marker passes statements that fill shared memory, which TileLang moves anyway, and no others.
"""

from __future__ import annotations

from typing import Any

from tilelang import tvm

from .markers import Marker

tirx = tvm.tirx

TIED = "tileops.tied"  # the attribute that makes one statement of a marker and its neighbour; nothing reads it
WRITE_MASK = 2  # in the second argument of a tl.region


def is_pipelined(stmt: Any) -> bool:
    """Whether a statement is a loop that TileLang pipelines or may specialize warps for."""
    if not isinstance(stmt, tirx.For):
        return False
    notes = stmt.annotations
    return ("num_stages" in notes and int(notes["num_stages"]) > 0) or "tl_pipeline_order" in notes


def tied(body: Any) -> Any:
    """A kernel's body with the markers of every pipelined loop tied to its other statements."""

    def loop(stmt: Any) -> Any:
        if not is_pipelined(stmt):
            return None
        inside = _tied(_statements(stmt.body))
        return tirx.For(stmt.loop_var, stmt.min, stmt.extent, stmt.kind, inside, stmt.thread_binding, stmt.annotations,
                        stmt.step)  # fmt: skip

    return tirx.stmt_functor.ir_transform(body, None, loop, ["tirx.For"])


def beside_guard(loop: Any) -> list[Any]:
    """The statements of a pipelined loop that hold markers and stand beside its body's guard.

    Where a body is one ``if`` without ``else``, TileLang specializes warps by what is inside. Such statements have to
    move in there, and record only in iterations that the guard lets through.
    """
    parts = _statements(loop.body)
    return [] if _guard(parts) is None else [part for part in parts if only_markers(part)]


def only_markers(stmt: Any) -> bool:
    """Whether a statement is a marker, or control flow around markers and nothing else."""
    found: list[bool] = []

    def inert(node: Any) -> bool:
        if isinstance(node, tirx.Evaluate):
            found.append(Marker.of(node) is not None)
            return found[-1] or isinstance(node.value, tirx.IntImm)
        if isinstance(node, tirx.SeqStmt):
            return all(inert(part) for part in node.seq)
        if isinstance(node, tirx.IfThenElse):
            return inert(node.then_case) and (node.else_case is None or inert(node.else_case))
        return isinstance(node, tirx.For) and inert(node.body)

    return inert(stmt) and any(found)


def fills_shared_memory(stmt: Any) -> bool:
    """Whether a statement writes to shared memory: what TileLang takes out of the order of a pipelined loop."""
    return any(scope.startswith("shared") for scope in _scopes(stmt)[1])


def sequence(parts: list[Any]) -> Any:
    """Statements in a row, as one statement."""
    if not parts:
        return tirx.Evaluate(0)
    return parts[0] if len(parts) == 1 else tirx.SeqStmt(parts)


def _statements(stmt: Any) -> list[Any]:
    if isinstance(stmt, tirx.SeqStmt):
        return [inner for part in stmt.seq for inner in _statements(part)]
    return [stmt]


def _guard(parts: list[Any]) -> Any:
    others = [part for part in parts if not only_markers(part)]
    *bindings, last = others or [None]
    guarded = isinstance(last, tirx.IfThenElse) and last.else_case is None
    return last if guarded and all(isinstance(part, tirx.Bind) for part in bindings) else None


def _tied(parts: list[Any]) -> Any:
    guard = _guard(parts)
    if guard is not None:
        at = next(index for index, part in enumerate(parts) if part.same_as(guard))
        ahead, behind = [p for p in parts[:at] if only_markers(p)], parts[at + 1 :]
        inside = _tied([*ahead, *_statements(guard.then_case), *behind])
        bindings = [part for part in parts[:at] if isinstance(part, tirx.Bind)]
        return sequence([*bindings, tirx.IfThenElse(guard.condition, inside, None)])

    made: list[list[Any]] = []  # statements; of those that computed, with what is tied to them
    waiting: list[Any] = []  # markers that have no place yet
    ties: list[Any] = []  # what `waiting` may be tied to from behind: the last statement that computed
    for part in parts:
        if only_markers(part):
            (made[-1] if ties and made[-1] is ties[-1] else waiting).append(part)
        elif _computes_in_registers(part):
            made.append([*waiting, part])
            ties, waiting = [made[-1]], []
        elif isinstance(part, tirx.Bind):
            made.append([part])
            ties = []  # what follows may use it
        elif fills_shared_memory(part):
            made.append([part])
        else:
            made.extend([marker] for marker in waiting)
            made.append([part])
            ties, waiting = [], []
    if ties:
        ties[-1].extend(waiting)
    else:
        made.extend([marker] for marker in waiting)
    return sequence([_as_one(group) for group in made])


def _as_one(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    return tirx.AttrStmt(tirx.const(0, "int32"), TIED, tirx.const(1, "int32"), tirx.SeqStmt(parts))


def _computes_in_registers(stmt: Any) -> bool:
    reads, writes = _scopes(stmt)
    return bool(writes) and all(scope.startswith("local") for scope in writes) and "global" not in reads


def _scopes(stmt: Any) -> tuple[set[str], set[str]]:
    """The scopes of the memory that a statement touches at all, and of that which it writes."""
    touched: set[str] = set()
    written: set[str] = set()

    def visit(node: Any) -> None:
        if isinstance(node, tirx.BufferLoad):
            touched.add(str(node.buffer.scope()) or "global")
        elif isinstance(node, tirx.BufferStore):
            written.add(str(node.buffer.scope()) or "global")
        elif isinstance(node, tirx.Call) and getattr(node.op, "name", "") == "tl.region":
            if int(node.args[1]) & WRITE_MASK:
                written.add(str(node.args[0].buffer.scope()) or "global")

    tirx.stmt_functor.post_order_visit(stmt, visit)
    return touched, written
