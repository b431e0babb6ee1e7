"""The instructions that a kernel's source is compiled to: nvcc makes a cubin, a disassembler prints it, we count.

What stands in the machine code can run. How often it does, and how long it takes, the code does not say.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from ..facts import Instructions

# For each of nvcc and the disassembler. The test of the production GEMM took 7 s with both, lowering included.
TIME_LIMIT_S = 60.0
CAUTION = "That they stand in the code proves nothing about time: how often they run, and how long, is another matter."

_CODE = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@(!?\w+)\s+)?([A-Z]\w*)", re.MULTILINE)
# All that ends in MMA is the tensor cores': HGMMA, UTCHMMA, HMMA, IMMA, QMMA and their kin.
_TENSOR = re.compile(r"[A-Z]+MMA")
_OTHERS = re.compile(r"UTMALDG|UTMASTG|UTMAREDG|UBLKCP|LDGSTS|FFMA2?|DFMA|LDG|STG")
# ptxas pads with instructions that never run.
_NEVER = ("!PT", "!UPT")


class _MissingError(Exception):
    """Why there is no machine code, as a sentence."""


def instructions_of(kernel: str, source: str, arch: str, limit_s: float = TIME_LIMIT_S) -> Instructions:
    """Compiles CUDA source and counts the instructions that tell a path.

    Args:
        kernel: its name.
        source: as TileLang generated it. All kernels in it are counted together.
        arch: what to compile for, such as ``sm_90a``; empty if there is no NVIDIA GPU.
        limit_s: seconds for the compiler, and for the disassembler.
    """
    try:
        counted = Counter(_disassembled(source, arch, limit_s))
    except _MissingError as reason:
        return Instructions(kernel, arch, missing=f"The instructions of {kernel} are unknown: {reason}")
    told = {name: counted[name] for name in sorted(counted) if _TENSOR.fullmatch(name)}
    told |= {name: counted[name] for name in sorted(counted) if _OTHERS.fullmatch(name)}
    return Instructions(kernel, arch, counted.total(), told)


def uses_tensor_cores(found: Instructions) -> bool | None:
    """Whether tensor-core instructions stand in the code; None if it is unknown."""
    return None if found.missing else any(map(_TENSOR.fullmatch, found.counts))


def told(found: Instructions) -> str:
    """What was counted, as a sentence or two."""
    if found.missing:
        return found.missing
    counts = ", ".join(f"{count:,} {name}" for name, count in found.counts.items()) or "none of those looked for"
    without = "" if uses_tensor_cores(found) else "; no instruction of tensor cores is among them"
    return (
        f"Compiled for {found.arch}, {found.kernel} has {found.total:,} instructions, with {counts}{without}. {CAUTION}"
    )


def parse(text: str) -> list[str]:
    """The instructions in what nvdisasm or cuobjdump printed, without modifiers, less those that never run."""
    return [name for guard, name in _CODE.findall(text) if guard not in _NEVER]


def find_nvcc() -> str | None:
    """The nvcc of the PATH, else of a CUDA toolkit, else of PyPI's package."""
    return _find("nvcc", "nvidia-cuda-nvcc")


def find_disassembler() -> str | None:
    """A path of nvdisasm, else of cuobjdump."""
    return _find("nvdisasm", "nvidia-cuda-nvdisasm") or _find("cuobjdump", "nvidia-cuda-cuobjdump")


def _find(tool: str, package: str) -> str | None:
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    places = [shutil.which(tool), *(shutil.which(tool, path=os.path.join(home, "bin")) for home in homes if home)]
    try:
        files = importlib.metadata.files(package) or []
        places += [str(file.locate()) for file in files if file.name in (tool, f"{tool}.exe")]
    except importlib.metadata.PackageNotFoundError:
        pass
    return next((place for place in places if place and os.access(place, os.X_OK)), None)


def _disassembled(source: str, arch: str, limit_s: float) -> list[str]:
    """The instructions of all kernels in a source.

    Raises:
        _MissingError: if something needed is not there, or fails.
    """
    if not arch:
        raise _MissingError("there is no NVIDIA GPU here that the source could be compiled for.")
    nvcc, disassembler = find_nvcc(), find_disassembler()
    if nvcc is None:
        raise _MissingError("there is no nvcc (on the PATH, in CUDA_HOME, or PyPI's nvidia-cuda-nvcc).")
    if disassembler is None:
        raise _MissingError(
            "there is no nvdisasm or cuobjdump (on the PATH, in CUDA_HOME, or PyPI's nvidia-cuda-nvdisasm)."
        )
    from tilelang.env import CUTLASS_INCLUDE_DIR, TILELANG_TEMPLATE_PATH

    with tempfile.TemporaryDirectory(prefix="tileops-cubin-") as folder:
        file, cubin = Path(folder, "kernel.cu"), Path(folder, "kernel.cubin")
        file.write_text(source, encoding="utf-8")
        gencode = f"-gencode=arch={arch.replace('sm', 'compute')},code={arch}"
        include = ["-I", str(TILELANG_TEMPLATE_PATH), "-I", str(CUTLASS_INCLUDE_DIR)]
        _run([nvcc, "-cubin", "-std=c++17", "-w", gencode, *include, "-o", str(cubin), str(file)], limit_s)
        printing = "-sass" if Path(disassembler).stem == "cuobjdump" else "-c"
        found = parse(_run([disassembler, printing, str(cubin)], limit_s))
    if not found:
        raise _MissingError(f"{Path(disassembler).name} printed no instruction.")
    return found


def _run(command: list[str], limit_s: float) -> str:
    """What a program prints.

    Raises:
        _MissingError: if it fails, or takes too long.
    """
    tool = Path(command[0]).name
    try:
        # A session of its own: nvcc's compilers would outlive it.
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True
        )
    except OSError as error:
        raise _MissingError(f"{tool} cannot be started: {error.strerror or error}.") from error
    with process:
        try:
            out, said = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired as error:
            raise _MissingError(f"{tool} took longer than {limit_s:g} s.") from error
        finally:
            if process.poll() is None:
                _end(process)
    if process.returncode:
        lines = [line.strip() for line in (said or out).splitlines() if line.strip()]
        first = next((line for line in lines if "error" in line.lower()), lines[0] if lines else "it said nothing")
        raise _MissingError(f"{tool} failed with status {process.returncode}: {first[:200]}")
    return out


def _end(process: subprocess.Popen[str]) -> None:
    if sys.platform == "win32":
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGKILL)
