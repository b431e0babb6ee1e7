"""Generated CUDA source as plain data: the kernel's statements, and the calls and assignments inside them.

This is the only module that knows of tree-sitter. What it does not understand it keeps as a statement of kind
``"other"``, with its span; nothing is guessed from a line's looks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

JUMPS = {"return_statement", "break_statement", "continue_statement", "goto_statement"}
GLOBAL, SHARED, LOCAL = "global", "shared", "local"
# The grammar has no __align__(n). Blanks of the same length leave all offsets as they are.
_ALIGN = re.compile(rb"__align__\(\d+\)")
_NAME = re.compile(r"[A-Za-z_]\w*")
DESCRIPTOR = "_desc"  # what TileLang appends to a tensor's name for the tensor map that TMA reads


class UnreadableError(ValueError):
    """The source is none that this package can instrument; its text is the reason."""


@dataclass(frozen=True)
class Call:
    """A call.

    Attributes:
        name: without its namespace and template arguments; a static member's with its class: ``AllReduce::run``.
        receiver: what stands ahead of the dot of a member's call.
        arguments: their texts.
    """

    name: str
    receiver: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Write:
    """An assignment: the texts of its two sides, and its operator."""

    target: str
    operator: str
    value: str


@dataclass(frozen=True)
class Loop:
    """A ``for`` loop's variable and the texts of its begin, its condition and its step."""

    variable: str
    first: str
    condition: str
    step: str


@dataclass(frozen=True, eq=False)
class Statement:
    """A statement.

    Attributes:
        kind: ``"block"``, ``"if"``, ``"for"``, ``"while"``, ``"expression"``, ``"declaration"``, ``"jump"`` or
            ``"other"``.
        start, end: offsets in bytes of the lines that hold it, a ``#pragma`` ahead of it included.
        text: its text.
        condition: of an ``if`` or a ``while``.
        body, otherwise: the statements of a block or of a body, and of the ``else``.
        loop: of a ``for``.
        unrolled: whether ``#pragma unroll`` stands ahead of it.
        calls, writes: all inside it, nested ones too, in order.
        jumps: whether anything inside leaves a loop or the kernel.
    """

    kind: str
    start: int
    end: int
    text: str
    condition: str = ""
    body: tuple[Statement, ...] = ()
    otherwise: tuple[Statement, ...] = ()
    loop: Loop | None = None
    unrolled: bool = False
    calls: tuple[Call, ...] = ()
    writes: tuple[Write, ...] = ()
    jumps: bool = False


@dataclass(frozen=True)
class Function:
    """Where a kernel's definition stands: offsets in bytes."""

    name: str
    start: int
    end: int


@dataclass(frozen=True)
class Kernel:
    """A kernel of a generated source.

    Attributes:
        name: its name in C.
        parameters: the names of its parameters, in order.
        threads: threads of a block, by its launch bounds; 0 where it has none.
        statements: its body.
        start: where the body's first line begins (offset in bytes).
        scopes: the buffers' names to ``"global"``, ``"shared"`` or ``"local"``.
    """

    name: str
    parameters: tuple[str, ...]
    threads: int
    statements: tuple[Statement, ...]
    start: int
    scopes: dict[str, str] = field(default_factory=dict)


def identifiers(text: str) -> list[str]:
    """The names in a piece of source, in order."""
    return _NAME.findall(text)


def functions(source: str) -> list[Function]:
    """The kernels of generated source, in order."""
    reader = _Reader(source.encode())
    return [Function(reader.name(node), node.start_byte, node.end_byte) for node in _kernels(source)]


def parse(source: str, name: str = "") -> Kernel:
    """Reads a kernel of generated source.

    Args:
        source: the source.
        name: the kernel's name in C; empty for the only one.

    Raises:
        UnreadableError: if it has no such kernel, or several and no name is given, or the parser does not understand
            it.
    """
    raw = source.encode()
    reader = _Reader(raw)
    found = [node for node in _kernels(source) if name in ("", reader.name(node))]
    if len(found) != 1:
        raise UnreadableError(f"its source holds {len(found)} kernels {name}".rstrip() + "; one can be instrumented")
    node = found[0]
    wrong = next((part for part in _walk(node) if part.type == "ERROR" or part.is_missing), None)
    if wrong is not None:
        line = wrong.start_point[0]
        raise UnreadableError(f"line {line + 1} of its source cannot be parsed: {source.splitlines()[line].strip()!r}")
    return reader.kernel(node)


@lru_cache(maxsize=2)
def _kernels(source: str) -> list[Any]:
    tree = _parser().parse(_ALIGN.sub(lambda found: b" " * len(found.group()), source.encode()))
    return [node for node in _walk(tree.root_node, into=("translation_unit", "linkage_specification",
            "declaration_list")) if node.type == "function_definition" and _is_kernel(node)]  # fmt: skip


@lru_cache(maxsize=1)
def _parser() -> Any:
    import tree_sitter
    import tree_sitter_cuda

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_cuda.language()))


def _walk(node: Any, into: tuple[str, ...] = ()) -> Iterator[Any]:
    """A node and those below it, in order; with ``into``, below nodes of these types only."""
    stack = [node]
    while stack:
        one = stack.pop()
        yield one
        if not into or one.type in into:
            stack.extend(reversed(one.children))


def _is_kernel(node: Any) -> bool:
    return any(child.type == "__global__" for child in node.children)


class _Reader:
    def __init__(self, source: bytes):
        self._source = source

    def text(self, node: Any) -> str:
        return self._source[node.start_byte : node.end_byte].decode()

    def name(self, node: Any) -> str:
        return identifiers(self.text(node.child_by_field_name("declarator")))[0]

    def kernel(self, node: Any) -> Kernel:
        declarator, body = node.child_by_field_name("declarator"), node.child_by_field_name("body")
        parameters = [child for child in _walk(declarator) if child.type == "parameter_declaration"]
        names = tuple(identifiers(self.text(child))[-1] for child in parameters)
        scopes = {name.removesuffix(DESCRIPTOR): GLOBAL for name, child in zip(names, parameters)
                  if name.endswith(DESCRIPTOR) or "*" in self.text(child)}  # fmt: skip
        bounds = next((child for child in node.children if child.type == "launch_bounds"), None)
        numbers = [] if bounds is None else [self.text(c) for c in bounds.children if c.type == "number_literal"]
        statements = self.statements(body)
        for statement in _all(statements):
            if statement.kind == "declaration":
                self._declare(statement.text, scopes)
        start = self._source.index(b"\n", body.start_byte) + 1
        return Kernel(self.name(node), names, int(numbers[0]) if numbers else 0, statements, start, scopes)

    def _declare(self, text: str, scopes: dict[str, str]) -> None:
        head, _, value = text.partition("=")
        array = re.match(r"(.*?)([A-Za-z_]\w*)\s*\[", head)
        if "__shared__" in head or "buf_dyn_shmem" in value:
            scopes.setdefault(array.group(2) if array else identifiers(head)[-1], SHARED)
        elif array and not value and array.group(1).strip() != "int":  # these are TileLang's counters of phases
            scopes.setdefault(array.group(2), LOCAL)

    def statements(self, block: Any) -> tuple[Statement, ...]:
        made, pragma = [], None
        for child in block.named_children:
            if child.type == "comment" or self.text(child) == ";":  # TileLang prints `break;;`
                continue
            if child.type == "preproc_call":
                pragma = pragma or child
                continue
            made.append(self.statement(child, pragma))
            pragma = None
        return tuple(made)

    def body(self, node: Any) -> tuple[Statement, ...]:
        if node is None:
            return ()
        if node.type == "else_clause":
            node = node.named_children[-1]
        # Nothing can be put in front of a statement without braces.
        return self.statements(node) if node.type == "compound_statement" else ()

    def statement(self, node: Any, pragma: Any) -> Statement:
        first = node if pragma is None else pragma
        start = self._source.rfind(b"\n", 0, first.start_byte) + 1
        if self._source[start : first.start_byte].strip():
            raise UnreadableError(f"line {first.start_point[0] + 1} of its source holds more than one statement")
        end = self._source.find(b"\n", node.end_byte)
        end = len(self._source) if end < 0 else end + 1
        calls, writes, jumps = self._inside(node)
        kind, condition, loop = "other", "", None
        body: tuple[Statement, ...] = ()
        otherwise: tuple[Statement, ...] = ()
        if node.type == "compound_statement":
            kind, body = "block", self.statements(node)
        elif node.type == "if_statement":
            kind, condition = "if", self.text(node.child_by_field_name("condition"))
            body = self.body(node.child_by_field_name("consequence"))
            otherwise = self.body(node.child_by_field_name("alternative"))
        elif node.type == "for_statement":
            kind, loop, body = "for", self._loop(node), self.body(node.child_by_field_name("body"))
        elif node.type == "while_statement":
            kind, condition = "while", self.text(node.child_by_field_name("condition"))
            body = self.body(node.child_by_field_name("body"))
        elif node.type == "expression_statement":
            kind = "expression"
        elif node.type == "declaration":
            kind = "declaration"
        elif node.type in JUMPS:
            kind = "jump"
        unrolled = pragma is not None and "unroll" in self.text(pragma)
        return Statement(
            kind, start, end, self.text(node), condition, body, otherwise, loop, unrolled, calls, writes, jumps
        )

    def _loop(self, node: Any) -> Loop | None:
        parts = [node.child_by_field_name(name) for name in ("initializer", "condition", "update")]
        if any(part is None for part in parts):
            return None
        head, _, first = self.text(parts[0]).rstrip(";").partition("=")
        names = identifiers(head)
        return Loop(names[-1] if names else "", first.strip(), self.text(parts[1]), self.text(parts[2]))

    def _inside(self, node: Any) -> tuple[tuple[Call, ...], tuple[Write, ...], bool]:
        calls, writes, jumps = [], [], False
        for part in _walk(node):
            if part.type == "call_expression":
                calls.append(self._call(part))
            elif part.type == "assignment_expression":
                left, right = (part.child_by_field_name(side) for side in ("left", "right"))
                operator = self.text(part.child_by_field_name("operator"))
                writes.append(Write(self.text(left), operator, self.text(right)))
            elif part.type in JUMPS:
                jumps = True
        return tuple(calls), tuple(writes), jumps

    def _call(self, node: Any) -> Call:
        function = node.child_by_field_name("function")
        arguments = node.child_by_field_name("arguments")
        texts = tuple(self.text(child) for child in arguments.named_children if child.type != "comment")
        if function.type == "field_expression":
            receiver = self.text(function.child_by_field_name("argument"))
            member = self.text(function.child_by_field_name("field"))
            return Call(_plain(member), receiver, texts)
        return Call(_plain(self.text(function)), "", texts)


def _plain(name: str) -> str:
    """A name without ``tl::`` and other namespaces in small letters, and without template arguments."""
    depth, kept = 0, []
    for letter in name:
        depth += letter == "<"
        if depth == 0:
            kept.append(letter)
        depth -= letter == ">"
    parts = "".join(kept).split("::")
    return "::".join(part for at, part in enumerate(parts) if at == len(parts) - 1 or part[:1].isupper())


def _all(statements: tuple[Statement, ...]) -> Iterator[Statement]:
    for statement in statements:
        yield statement
        yield from _all(statement.body)
        yield from _all(statement.otherwise)
