"""TileLang's host code, which is C, with calls back around a kernel's launch."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from ..errors import TraceError

_CALL = re.compile(
    r"^([ \t]*)if \(TVMFFIFunctionCall\((\w+)_packed, \(TVMFFIAny\*\) (\w+), (\d+), &\w+\) != 0\) \{\n[^}]*\}\n", re.M
)


def launched(source: str) -> list[str]:
    """The kernels that a host source launches, once for each place where it does."""
    return [call[2] for call in _CALL.finditer(source) if not call[2].startswith("__")]  # TVM's own functions


def hooked(source: str, kernel: str, hook: str) -> str:
    """A host source that calls two global functions of TVM's, ``hook.before`` and ``hook.after``.

    The first gets what the kernel's launch is given. A function that it returns is launched in the kernel's place, with
    the same arguments. Where one of them fails, so does the host code.

    Args:
        source: what TileLang generated; it launches the kernel in one place.
        kernel: the kernel's name in C.
        hook: the functions' name.
    """
    call = next(call for call in _CALL.finditer(source) if call[2] == kernel)
    indent, packed = call[1], f"{kernel}_packed"
    launch, result = f"tileops_launch_{kernel}", f"tileops_result_{kernel}"
    before = [
        f"void* {launch} = {packed};",
        f"TVMFFIAny {result};",
        *_nothing(result),
        *_call_back(f"{hook}.before", call[3], call[4], result),
        f"if ({result}.type_index == kTVMFFIFunction) {{",
        f"  {launch} = {result}.v_obj;",
        "}",
    ]
    after = [
        f"if ({result}.type_index >= kTVMFFIStaticObjectBegin) {{",
        f"  TVMFFIObjectDecRef({result}.v_obj);",
        "}",
        *_nothing(result),
        *_call_back(f"{hook}.after", call[3], "0", result),
    ]
    text = call[0].replace(f"({packed},", f"({launch},", 1)
    return source[: call.start()] + _lines(indent, before) + text + _lines(indent, after) + source[call.end() :]


def ctas(launch: Sequence[Any], names: Sequence[str]) -> int:
    """The grid's size, of what a launch is given behind the kernel's parameters, by the names that TVM has for these.

    An extent can be given twice: a block's, where the author binds its threads again.

    Raises:
        TraceError: if they are not what the names say.
    """
    if len(launch) != len(names):
        raise TraceError(f"its launch has other parameters than {', '.join(names)}: {launch}")
    extents = {name: int(value) for name, value in zip(names, launch) if name.startswith("blockIdx.")}
    return math.prod(extents.values())


def _nothing(result: str) -> list[str]:
    return [f"{result}.type_index = kTVMFFINone;", f"{result}.zero_padding = 0;", f"{result}.v_int64 = 0;"]


def _call_back(name: str, stack: str, count: str, result: str) -> list[str]:
    return [
        "{",
        "  void* tileops_hook = NULL;",
        f'  if (TVMBackendGetFuncFromEnv(__tvm_ffi__library_ctx, "{name}", &tileops_hook) == 0) {{',
        f"    if (TVMFFIFunctionCall(tileops_hook, (TVMFFIAny*) {stack}, {count}, &{result}) != 0) {{",
        "      return -1;",
        "    }",
        "  }",
        "}",
    ]


def _lines(indent: str, lines: list[str]) -> str:
    return "".join(f"{indent}{line}\n" for line in lines)
