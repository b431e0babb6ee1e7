"""Generated sources of many kernels: each is instrumented, keeps its structure, records a sound timeline, compiles."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tileops.trace.auto.block import control_words
from tileops.trace.auto.operations import LEVELS
from tileops.trace.auto.rewrite import Instrumented, instrument
from tileops.trace.auto.syntax import parse
from tileops.trace.decode import decode_lines
from tileops.trace.lowering import device_source
from tileops.trace.sites import BEGIN, SiteTable

from ..building import joined
from ..sass import compiled_kernels, disassemble, find_nvdisasm
from . import corpus
from .kernels import ELSEWHERE, KERNELS
from .running import events, recorded, recorders, slots

ADDED = re.compile(
    r"\s*(tileops_\w+\(.*\);|const (dim3|bool|unsigned long long) tileops_\w+ = .*;|// tileops\.trace .*)\n"
)
ALL = [(name, arch, version) for version in corpus.VERSIONS for arch in corpus.ARCHES for name in corpus.names(arch)
       if name in KERNELS and not (name == "clustered" and version != "0.1.15")]  # fmt: skip
NAMED = [f"{name}-{arch}-{version}" for name, arch, version in ALL]


@cache
def instrumented(name: str, arch: str, version: str, level: str) -> Instrumented:
    return instrument(corpus.text(name, arch, version), "slots", level)


def without_tracing(source: str) -> str:
    """Source less the lines that instrumenting added."""
    kept = source.replace(device_source("recorder.cuh"), "")
    return "".join(line for line in kept.splitlines(keepends=True) if not ADDED.fullmatch(line))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("name", "arch", "version"), ALL, ids=NAMED)
def test_instrumented_source_keeps_its_structure(name: str, arch: str, version: str, level: str) -> None:
    made = instrumented(name, arch, version, level)
    made.table.check()
    assert SiteTable.from_json(made.table.to_json()) == made.table
    assert without_tracing(made.source) == corpus.text(name, arch, version)
    assert len(made.table.ranges) > 0
    leads = [group.lead for group in made.table.groups]
    assert len({*leads}) == len(leads)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("name", "arch", "version"), ALL, ids=NAMED)
def test_what_it_would_record_is_a_sound_timeline(name: str, arch: str, version: str, level: str) -> None:
    """Every range that begins ends, nothing is dropped, and iterations count up in each loop."""
    made = instrumented(name, arch, version, level)
    timeline = decode_lines(slots(made.source, made.table), made.table)
    assert timeline.dropped == 0
    assert timeline.never_fired == ()
    begun: Counter[str] = Counter()
    elected = recorders(made.source, parse(made.source))
    for role, group in enumerate(made.table.groups):
        happened = [event for site, _ in recorded(made.source, role, group.lead) for event in made.table.sites[site]]
        begun.update(made.table.ranges[r].name for kind, r in happened if kind == BEGIN)
        number, thread, _ = elected[role]
        assert events(made.source, thread, number) == len(happened)  # what a row that is full has lost is told by this
    assert Counter(row.name for row in timeline.slices) == begun
    assert not timeline.slices["cut"].any()
    for role in range(len(timeline.groups)):
        of_role = [row for row in timeline.slices if row.group == timeline.groups[role] and row.depth == 0]
        ends = [row.start + row.duration for row in of_role]
        assert all(end <= row.start for end, row in zip(ends, of_role[1:]))  # one after the other


def test_a_pipelined_gemm_is_told_as_its_author_wrote_it() -> None:
    made = instrumented("gemm", "sm_90a", "0.1.15", "ops")
    timeline = decode_lines(slots(made.source, made.table), made.table)
    assert timeline.groups == ("producer", "consumer")
    rows = {name: [row.payload for row in timeline.slices if row.name == name] for name in
            ("acquire As, Bs", "load As, Bs", "wait As, Bs", "gemm Cl")}  # fmt: skip
    assert all(numbers == list(range(16)) for numbers in rows.values())  # k / block_k iterations
    every = list(timeline.slices)
    flows = [(every[flow.src_slice], every[flow.dst_slice]) for flow in timeline.flows]
    loads = [(a.payload, b.payload) for a, b in flows if (a.name, b.name) == ("load As, Bs", "wait As, Bs")]
    frees = [(a.payload, b.payload) for a, b in flows if (a.name, b.name) == ("gemm Cl", "acquire As, Bs")]
    assert loads == [(k, k) for k in range(16)]
    assert frees == [(k, k + 3) for k in range(13)]  # a ring of three stages
    assert len(flows) == 29


ROLES = {
    "gemm": ["producer", "consumer"],
    "gemm_two_warpgroups": ["producer", "consumer 0", "consumer 1"],
    "gemm_by_hand": ["producer", "consumer 0", "consumer 1"],
    "gemm_one_stage": ["main"],
    "softmax": ["main"],
    "attention": ["producer", "consumer"],
}
ARROWS = {
    "gemm_split_k": {("load As, Bs", "wait As, Bs", 0), ("gemm Cl", "acquire As, Bs", 3)},
    "gemm_persistent": {("load As, Bs", "wait As, Bs", 0), ("gemm Cl", "acquire As, Bs", 3)},
    "gemm_dynamic": {("load As, Bs", "wait As, Bs", 0), ("gemm Cl", "acquire As, Bs", 2)},
    "gemm_by_hand": {
        ("load a_smem, b_smem", "wait a_smem, b_smem", 0), ("release a_smem, b_smem", "acquire a_smem, b_smem", 3)
    },
    "attention": {
        ("load Qs", "wait Qs", 0), ("load Ks", "wait Ks", 0), ("load Vs", "wait Vs", 0), ("gemm S", "acquire Ks", 2),
        ("gemm Ol", "acquire Vs", 2),
    },
}  # fmt: skip


@pytest.mark.parametrize("version", corpus.VERSIONS)
@pytest.mark.parametrize("name", ROLES)
def test_roles(name: str, version: str) -> None:
    assert [group.name for group in instrumented(name, "sm_90a", version, "ops").table.groups] == ROLES[name]


@pytest.mark.parametrize("version", corpus.VERSIONS)
@pytest.mark.parametrize("name", ARROWS)
def test_arrows(name: str, version: str) -> None:
    edges = instrumented(name, "sm_90a", version, "ops").table.edges
    assert {(edge.src, edge.dst, edge.shift) for edge in edges} == ARROWS[name]


@pytest.mark.parametrize("name", KERNELS)
def test_the_installed_tilelang_is_understood(name: str) -> None:
    """What a new TileLang prints differently shows here, without a GPU."""
    source = corpus.generated(KERNELS[name], "sm_90a")
    made = instrument(source, "slots")
    assert without_tracing(made.source) == source
    if name in ROLES:
        assert [group.name for group in made.table.groups] == ROLES[name]
    if name in ARROWS:
        assert {(edge.src, edge.dst, edge.shift) for edge in made.table.edges} == ARROWS[name]


COMPILED = {
    "sm_90a": [
        *((name, "ops") for name in KERNELS),
        *((name, "all") for name in ("gemm", "gemm_by_hand", "attention")),
    ],
    "sm_80": [(name, "roles") for name in ELSEWHERE],
    "sm_100a": [(name, "roles") for name in ELSEWHERE],
}


@pytest.mark.nvcc
@pytest.mark.parametrize("arch", COMPILED)
def test_instrumented_source_compiles(arch: str, compile_cubin: Callable[..., Path]) -> None:
    words = control_words(0x7F0000000000)
    sources = {
        f"{name}_{level}": instrument(
            corpus.text(name, arch, "0.1.15"), f"{words}[0]", level, lines=f"{words}[1]"
        ).source
        for name, level in COMPILED[arch]
    }
    assert compiled_kernels(compile_cubin(joined(sources), arch=arch)) == {*sources}


@pytest.mark.nvcc
def test_instrumented_source_of_older_versions_compiles(compile_cubin: Callable[..., Path]) -> None:
    sources = {}
    for name, version in itertools.product(("gemm", "attention", "softmax"), corpus.VERSIONS[:2]):
        text = instrumented(name, "sm_90a", version, "ops").source.replace("(unsigned long long)(slots)", "0x1000ull")
        sources[f"{name}_of_{version.replace('.', '_')}"] = text
    assert compiled_kernels(compile_cubin(joined(sources))) == {*sources}


@pytest.mark.nvcc
def test_loops_are_unrolled_as_without_calls(compile_cubin: Callable[..., Path]) -> None:
    """A GEMM's loop that stays rolled takes longer: 1.05 times as long on an H200."""
    nvdisasm = find_nvdisasm()
    if nvdisasm is None:
        pytest.skip("needs nvdisasm")
    sources = {}
    for name in ("gemm", "gemm_two_warpgroups"):
        for build in ("plain", "roles", "ops"):
            source = corpus.text(name, "sm_90a", "0.1.15")
            sources[f"{name}_{build}"] = source if build == "plain" else instrument(source, "0x1000ull", build).source
    functions = disassemble(compile_cubin(joined(sources)), nvdisasm)
    found = {name: sum(one.base == "HGMMA" for one in function.code) for name, function in functions.items()}
    assert len(found) == 6
    for name in ("gemm", "gemm_two_warpgroups"):
        assert found[f"{name}_roles"] == found[f"{name}_ops"] == found[f"{name}_plain"] >= 8
