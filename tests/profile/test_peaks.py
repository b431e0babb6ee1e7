"""The table of peaks: names that drivers give, and figures that must fit each other."""

from __future__ import annotations

import re

import pytest

from tileops.profile.peaks import GPUS, ceilings, dtype_name, find_gpu


@pytest.mark.parametrize(
    ("name", "memory", "expected"),
    [
        ("NVIDIA A100-SXM4-40GB", None, "A100 40GB"),
        ("NVIDIA A100-SXM4-40GB", 42_297_524_224, "A100 40GB"),
        ("NVIDIA A100-PG509-200", 42_297_524_224, "A100 40GB"),
        ("A100-PCIE-40GB", None, "A100 40GB"),
        ("NVIDIA A100-SXM4-80GB", 85_000_000_000, "A100 80GB SXM"),
        ("NVIDIA A100-SXM4-80GB", None, "A100 80GB SXM"),
        ("NVIDIA A100 80GB PCIe", None, "A100 80GB PCIe"),
        ("NVIDIA H100 80GB HBM3", None, "H100 SXM"),
        ("NVIDIA H100 PCIe", None, "H100 PCIe"),
        ("NVIDIA H100 NVL", None, "H100 NVL"),
        ("NVIDIA H200", 150_109_880_320, "H200 SXM"),
        ("NVIDIA H200 NVL", None, "H200 NVL"),
        ("NVIDIA H20", None, "H20"),
        ("NVIDIA B200", None, "B200"),
        ("NVIDIA L40S", None, "L40S"),
        ("NVIDIA GeForce RTX 4090", None, "RTX 4090"),
        ("NVIDIA GeForce RTX 5090", None, "RTX 5090"),
        ("AMD Instinct MI300X", None, "MI300X"),
        # Others, and parts of one: their peaks are not these.
        ("NVIDIA GeForce RTX 4090 D", None, None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None, None),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", None, None),
        ("NVIDIA H800", None, None),
        ("NVIDIA GH200 480GB", None, None),
        ("NVIDIA L40", None, None),
        ("Tesla V100-SXM2-32GB", None, None),
        ("NVIDIA H20-3e", None, None),
        ("", None, None),
    ],
)
def test_names(name, memory, expected):
    found = find_gpu(name, memory)
    assert (found.name if found else None) == expected


def test_the_table_fits_itself():
    for gpu in GPUS:
        re.compile(gpu.pattern)
        assert gpu.source
        assert 2020 <= gpu.published <= 2026
        assert gpu.matrix["float16"] / gpu.matrix["tf32"] == pytest.approx(2, rel=0.02), gpu.name
        if "float8" in gpu.matrix:
            assert gpu.matrix["float8"] / gpu.matrix["float16"] == pytest.approx(2, rel=0.03), gpu.name
        assert gpu.matrix["float16"] > 1.5 * gpu.vector["float32"]
        assert gpu.vector.get("float64", 0) < gpu.vector["float32"]
        assert gpu.vector.get("float16", gpu.vector["float32"]) / gpu.vector["float32"] in (
            pytest.approx(1, rel=0.01), pytest.approx(2, rel=0.01), pytest.approx(4, rel=0.01),
        ), gpu.name  # fmt: skip
        assert 500 < gpu.bandwidth < 10_000


def test_types():
    import torch

    assert dtype_name(torch.float16) == dtype_name("half") == dtype_name("FP16") == "float16"
    assert dtype_name("fp8") == dtype_name(torch.float8_e4m3fn) == "float8_e4m3fn"
    assert dtype_name("odd") == "odd"


def test_ceilings():
    h200 = ceilings("NVIDIA H200", torch_name := "bfloat16")
    assert (h200.gpu, h200.dtype) == ("H200 SXM", torch_name)
    assert (h200.bandwidth, h200.matrix, h200.vector) == (4800.0, 989.5, 133.8)
    assert h200.measured == frozenset()
    assert "datasheet (2024)" in h200.source
    assert "sparsity" in h200.source
    # float32 is no tensor cores' type on NVIDIA's: TF32 is another.
    assert ceilings("NVIDIA H200", "float32").matrix is None
    assert ceilings("NVIDIA H200", "tf32").matrix == 494.5
    assert ceilings("NVIDIA A100-SXM4-40GB", "bfloat16").vector == 39.0
    assert ceilings("NVIDIA L40S", "float64").vector is None
    # What computes at another rate than float32 has not float32's.
    for kind in ("int8", "int32", "int64", "complex64", "odd"):
        assert ceilings("NVIDIA H200", kind, {"vector:float32": 50.0}).vector is None
    assert ceilings("NVIDIA B200", "int8").matrix == 4500.0
    assert ceilings("NVIDIA H200", "float8_e5m2").matrix == 1979.0


def test_what_was_measured_comes_first():
    measured = {"bandwidth": 4300.0, "matrix:float16": 790.0}
    found = ceilings("NVIDIA H200", "bfloat16", measured)
    assert (found.bandwidth, found.matrix, found.vector) == (4300.0, 790.0, 133.8)
    assert found.measured == {"bandwidth", "matrix"}
    assert found.limits == {"bandwidth": 4800.0, "matrix": 989.5, "vector": 133.8}
    # A measured float32 rate is no ceiling of a type that the sheet gives another rate.
    slow = {"vector:float32": 50.0}
    assert [ceilings("NVIDIA H200", kind, slow).vector for kind in ("float32", "tf32", "float16")] == [50, 50, 133.8]
    assert ceilings("NVIDIA L40S", "float16", slow).vector == ceilings("NVIDIA Thing", "float16", slow).vector == 50
    assert ceilings("NVIDIA H200", "float8", measured).measured == {"bandwidth"}


def test_an_unknown_gpu():
    found = ceilings("NVIDIA Thing", "float16")
    assert (found.gpu, found.bandwidth, found.matrix, found.vector) == ("", None, None, None)
    assert "NVIDIA Thing is not among" in found.source
    assert ceilings("NVIDIA Thing", "float16", {"bandwidth": 100.0}).bandwidth == 100.0
