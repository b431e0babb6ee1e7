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
from tilelang.utils import side_effect

from .errors import TraceError
from .markers import Marker, markers_in

tirx = tvm.tirx

TIED = "tileops.tied"  # the attribute that makes one statement of a marker and its neighbour; nothing reads it
ORDER = "tl_pipeline_order"
WRITE_MASK = 2  # in the second argument of a tl.region


def is_pipelined(stmt: Any) -> bool:
    """Whether a statement is a loop that TileLang pipelines or may specialize warps for."""
    if not isinstance(stmt, tirx.For):
        return False
    notes = stmt.annotations
    return ("num_stages" in notes and int(notes["num_stages"]) > 0) or ORDER in notes


def tied(body: Any) -> Any:
    """A kernel's body with the markers of every pipelined loop tied to its other statements.

    Raises:
        TraceError: for a marker that stays a statement of its own where each has a place in ``order=`` and ``stage=``.
    """
    surplus: list[Marker] = []

    def loop(stmt: Any) -> Any:
        if not is_pipelined(stmt):
            return None
        inside = _tied(statements(stmt.body))
        if ORDER in stmt.annotations:
            surplus.extend(m for part in statements(inside) if only_markers(part) for m in markers_in(part))
        return tirx.For(stmt.loop_var, stmt.min, stmt.extent, stmt.kind, inside, stmt.thread_binding, stmt.annotations,
                        stmt.step)  # fmt: skip

    body = tirx.stmt_functor.ir_transform(body, None, loop, ["tirx.For"])
    for marker in surplus:  # not in `loop`: TVM would make another error of what is raised there
        raise TraceError(
            f"{marker.where}: {marker.what} would count as a statement of a T.Pipelined loop with order= and stage=: "
            "put it next to a statement that computes in registers, such as T.gemm"
        )
    return body


def beside_guard(loop: Any) -> list[Any]:
    """The statements of a pipelined loop that hold markers and stand beside its body's guard.

    Where a body is one ``if`` without ``else``, TileLang specializes warps by what is inside. Such statements have to
    move in there, and record only in iterations that the guard lets through.
    """
    parts = statements(loop.body)
    return [] if guard_of(parts) is None else [part for part in parts if only_markers(part)]


def guard_of(parts: list[Any]) -> Any:
    """The ``if`` that a pipelined loop's statements are, but for bindings and markers; ``None`` without one."""
    others = [part for part in parts if not only_markers(part)]
    *bindings, last = others or [None]
    guarded = isinstance(last, tirx.IfThenElse) and last.else_case is None and fills_shared_memory(last)
    return last if guarded and all(isinstance(part, tirx.Bind) for part in bindings) else None


def only_markers(stmt: Any) -> bool:
    """Whether a statement is a marker, or an ``if`` or a loop around markers and nothing else."""
    found: list[bool] = []

    def inert(node: Any) -> bool:
        if isinstance(node, tirx.Evaluate):
            found.append(Marker.of(node) is not None)
            return found[-1] or isinstance(node.value, tirx.IntImm)
        if isinstance(node, tirx.SeqStmt):
            return all(inert(part) for part in node.seq)
        if isinstance(node, tirx.IfThenElse):
            arms = (node.then_case, node.else_case)
            return _changes_nothing(node.condition) and all(inert(arm) for arm in arms if arm is not None)
        return isinstance(node, tirx.For) and _changes_nothing(node.extent) and inert(node.body)

    return inert(stmt) and any(found)


def _changes_nothing(expression: Any) -> bool:
    return bool(side_effect(expression) <= tirx.CallEffectKind.ReadState.value)


def statements(stmt: Any) -> list[Any]:
    """A statement as the list of those that it holds in a row."""
    if isinstance(stmt, tirx.SeqStmt):
        return [inner for part in stmt.seq for inner in statements(part)]
    return [stmt]


def fills_shared_memory(stmt: Any) -> bool:
    """Whether a statement writes to shared memory: what TileLang takes out of the order of a pipelined loop."""
    return any(scope.startswith("shared") for scope in _scopes(stmt)[1])


def sequence(parts: list[Any]) -> Any:
    """Statements in a row, as one statement."""
    if not parts:
        return tirx.Evaluate(0)
    return parts[0] if len(parts) == 1 else tirx.SeqStmt(parts)


def _tied(parts: list[Any]) -> Any:
    guard = guard_of(parts)
    if guard is not None:
        at = next(index for index, part in enumerate(parts) if part.same_as(guard))
        ahead, behind = [p for p in parts[:at] if only_markers(p)], parts[at + 1 :]
        inside = _tied([*ahead, *statements(guard.then_case), *behind])
        bindings = [part for part in parts[:at] if isinstance(part, tirx.Bind)]
        return sequence([*bindings, tirx.IfThenElse(guard.condition, inside, None)])

    made: list[list[Any]] = []  # statements; those that compute, with what is tied to them
    last: list[Any] | None = None  # of them, the one that markers may still be tied to from behind
    waiting: list[Any] = []  # markers that have no place yet
    for part in parts:
        if only_markers(part):
            (last if last is not None and made[-1] is last else waiting).append(part)
        elif _computes_in_registers(part):
            last = [*waiting, part]
            made.append(last)
            waiting = []
        elif isinstance(part, tirx.Bind):
            if last is not None:  # markers behind the binding may use it
                last += waiting
                last, waiting = None, []
            made.append([part])
        elif fills_shared_memory(part):
            made.append([part])
        else:
            made += [[marker] for marker in waiting] + [[part]]
            last, waiting = None, []
    if last is not None:
        last += waiting
    else:
        made += [[marker] for marker in waiting]
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
            touched.add(_scope(node))
        elif isinstance(node, tirx.BufferStore):
            written.add(_scope(node))
        elif (
            isinstance(node, tirx.Call)
            and getattr(node.op, "name", "") == "tl.region"
            and int(node.args[1]) & WRITE_MASK
        ):
            written.add(_scope(node.args[0]))

    tirx.stmt_functor.post_order_visit(stmt, visit)
    return touched, written


def _scope(access: Any) -> str:
    return str(access.buffer.scope()) or "global"
