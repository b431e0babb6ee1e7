"""The instructions in compiled kernels, and what is said where they cannot be had."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from tileops.profile import profile
from tileops.profile.facts import Instructions
from tileops.profile.live import candidates, instructions
from tileops.profile.live.device import Device, this_device
from tileops.profile.report.data import to_data
from tileops.profile.report.html import to_html

pytestmark = pytest.mark.filterwarnings("ignore")

SCALAR = 'extern "C" __global__ void __launch_bounds__(256) fma_kernel(float* a) { a[0] = a[1] * a[2] + a[3]; }'
# As nvdisasm -c and cuobjdump -sass print, by hand.
NVDISASM = """
.text.k:
.L_x_0:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @P0  HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], R24, !UPT ;
        /*0020*/              @!PT HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], R24, !UPT ;
        /*0030*/              @!UP1 UTMALDG.2D [UR8], [UR6] ;
        /*0040*/                   FFMA R2, R3, R4, R5 ;
        /*0050*/                   FFMA.FTZ R2, R3, R4, R5 ;
        /*0060*/                   LDGSTS.E.BYPASS.128 [R2], [R4.64] ;
"""
CUOBJDUMP = """
	Function : k
        /*0000*/                   UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8] ;   /* 0x00000a00ff017b82 */
                                                                                  /* 0x000fe20000000800 */
        /*0010*/                   STG.E desc[UR4][R2.64], R5 ;                   /* 0x0000000502007986 */
"""


def test_what_disassemblers_print():
    assert instructions.parse(NVDISASM) == ["LDC", "HGMMA", "UTMALDG", "FFMA", "FFMA", "LDGSTS"]
    assert instructions.parse(CUOBJDUMP) == ["UTCHMMA", "STG"]


def lowered(target, func, configs=None) -> str:
    import tilelang

    with target, tilelang.transform.PassContext(config=configs or {}):
        return str(tilelang.lower(func, target=target).kernel_source)


@pytest.mark.nvcc
def test_a_gemm_for_hopper(cuda_target):
    from tileops.kernels.gemm.dense import PASS_CONFIGS, build_gemm, default_config

    if instructions.find_disassembler() is None:
        pytest.skip("needs nvdisasm or cuobjdump")
    gemm = build_gemm(256, 256, 256).get_tir(**default_config(256, 256, 256))
    found = instructions.instructions_of("gemm", lowered(cuda_target, gemm, PASS_CONFIGS), "sm_90a")
    assert found.missing == ""
    assert found.counts["HGMMA"] > 0
    assert found.counts["UTMALDG"] > 0
    assert next(iter(found.counts)) == "HGMMA"
    assert found.total > sum(found.counts.values())
    assert instructions.uses_tensor_cores(found)


@pytest.mark.nvcc
def test_multiply_adds_in_fp32(cuda_target):
    import tilelang.language as T

    if instructions.find_disassembler() is None:
        pytest.skip("needs nvdisasm or cuobjdump")

    @T.prim_func
    def fma(a: T.Tensor((1024,), "float32"), b: T.Tensor((1024,), "float32")):
        with T.Kernel(8, threads=128) as block:
            at = block * 128 + T.get_thread_binding(0)
            b[at] = a[at] * b[at] + a[at]

    found = instructions.instructions_of("fma", lowered(cuda_target, fma), "sm_90a")
    assert found.missing == ""
    assert found.counts["FFMA"] > 0
    assert found.counts["LDG"] == 2
    assert found.counts["STG"] == 1
    assert "HGMMA" not in found.counts
    assert instructions.uses_tensor_cores(found) is False
    assert "no instruction of tensor cores" in instructions.told(found)


@pytest.mark.nvcc
def test_source_that_does_not_compile():
    if instructions.find_disassembler() is None:
        pytest.skip("needs nvdisasm or cuobjdump")
    found = instructions.instructions_of("bad", "__global__ void bad() { nothing_here(); }", "sm_90a")
    assert "nvcc failed with status" in found.missing
    assert "nothing_here" in found.missing
    assert found.counts == {}


def test_what_is_missing_is_said(monkeypatch):
    found = instructions.instructions_of("k", SCALAR, "")
    assert found.missing == (
        "The instructions of k are unknown: there is no NVIDIA GPU here that the source could be compiled for."
    )
    monkeypatch.setattr(instructions, "find_nvcc", lambda: None)
    assert "there is no nvcc" in instructions.instructions_of("k", SCALAR, "sm_90a").missing
    monkeypatch.setattr(instructions, "find_nvcc", lambda: "/no/such/nvcc")
    monkeypatch.setattr(instructions, "find_disassembler", lambda: None)
    assert "there is no nvdisasm or cuobjdump" in instructions.instructions_of("k", SCALAR, "sm_90a").missing
    monkeypatch.setattr(instructions, "find_disassembler", lambda: "/no/such/nvdisasm")
    found = instructions.instructions_of("k", SCALAR, "sm_90a")
    assert "nvcc cannot be started: No such file" in found.missing
    assert instructions.uses_tensor_cores(found) is None
    assert instructions.told(found) == found.missing


def test_tools_are_found_in_a_toolkit(monkeypatch, tmp_path):
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / "cuobjdump"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert instructions._find("cuobjdump", "no-such-package") == str(tool)
    assert instructions._find("no_such_tool", "no-such-package") is None


@pytest.mark.skipif(sys.platform == "win32", reason="shell scripts")
def test_a_compiler_that_takes_too_long_is_ended_with_its_children(monkeypatch, tmp_path):
    alive = tmp_path / "alive"
    slow = tmp_path / "nvcc"
    slow.write_text(f"#!/bin/sh\n(sleep 3; touch {alive}) &\nwait\n")
    slow.chmod(0o755)
    monkeypatch.setattr(instructions, "find_nvcc", lambda: str(slow))
    monkeypatch.setattr(instructions, "find_disassembler", lambda: "nvdisasm")
    found = instructions.instructions_of("k", SCALAR, "sm_90a", limit_s=0.5)
    assert found.missing.endswith("nvcc took longer than 0.5 s.")
    time.sleep(4)
    assert not alive.exists()


@pytest.mark.parametrize(
    ("capability", "hip", "arch"),
    [((8, 0), None, "sm_80"), ((9, 0), None, "sm_90a"), ((10, 3), None, "sm_103a"), ((12, 0), None, "sm_120a"),
     ((9, 4), "6.2", "")],
)  # fmt: skip
def test_what_a_gpu_is_compiled_for(monkeypatch, capability, hip, arch):
    found = SimpleNamespace(name="G", total_memory=1 << 30, L2_cache_size=1 << 20)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: found)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: capability)
    monkeypatch.setattr(torch.version, "hip", hip)
    assert this_device() == Device("G", True, 1, float(1 << 30), float(1 << 20), arch)


class Kernel:
    """What a compiled TileLang kernel has."""

    prim_func = None

    def __call__(self) -> None:
        return None

    def get_kernel_source(self) -> str:
        return SCALAR


def test_only_asked_for_and_in_every_form(monkeypatch):
    code = Instructions("fma_kernel", "sm_90a", 1234, {"HMMA": 7, "FFMA": 42})
    asked = []
    monkeypatch.setattr(candidates.machine_code, "instructions_of", lambda *given: asked.append(given) or code)
    assert profile({"made": Kernel()}, repeats=5).candidates[0].instructions == []
    assert asked == []
    monkeypatch.setattr(candidates, "this_device", lambda: Device("cpu", False, arch="sm_90a"))
    report = profile({"made": Kernel()}, repeats=5, instructions=True)
    assert asked == [("fma_kernel", SCALAR, "sm_90a")]
    assert report.candidates[0].instructions == [code]
    said = "Compiled for sm_90a, fma_kernel has 1,234 instructions, with 7 HMMA, 42 FFMA. That they stand in the code"
    page = to_html(report)
    for form in (" ".join(str(report).split()), page):
        assert said in form
        assert "Instructions of fma_kernel, compiled for sm_90a" in form
    figures = to_data(report)["figures"]["candidates"][0]["instructions"]
    assert figures == [{"kernel": "fma_kernel", "arch": "sm_90a", "total": 1234, "counts": code.counts, "missing": ""}]


def test_the_code_decides_before_the_source():
    sources, code = {"k": "wgmma"}, Instructions("k", "sm_90a", 9, {"FFMA": 3})
    assert candidates._tensor_cores(None, sources) is True
    assert candidates._tensor_cores(None, sources, [code]) is False
    assert candidates._tensor_cores(None, sources, [code, replace(code, counts={"UTCHMMA": 1})]) is True
    assert candidates._tensor_cores(None, sources, [replace(code, missing="No.")]) is True
    assert candidates._tensor_cores(True, sources, [code]) is True
