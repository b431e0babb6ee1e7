"""The device recorders on the host, under sanitizers, against the model.

``recorder_cpu.h`` is compiled as it is, and so is ``recorder.cuh`` but for its asm statements: each becomes a call into
the small PTX machine of ``host_ptx.h``.
"""

from __future__ import annotations

import functools
import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tileops.trace.slots import COUNT_LIMIT, HEADER_WORDS, SPARE_RECORDS, layout

from . import model

HERE = Path(__file__).parent
COMPILER = shutil.which("g++") or shutil.which("clang++")
FLAGS = ("-std=c++17", "-O0", "-Wall", "-Wno-unused-function", "-fsanitize=address,undefined",
         "-fno-sanitize-recover=all")  # fmt: skip

MARK, MARK_INT, MARK_UNSIGNED, MARK_FLOAT, JUMP, LEAVE, END, SETTLE, FLUSH, FIRST = range(10)
# What a marker does with its record: stores it, keeps it as the first, second or third of a batch, or stores it with
# the one, two or three that were kept.
ALONE, HELD_0, HELD_1, HELD_2, STORE_2, STORE_3, STORE_4 = range(7)
LATE_0 = 7  # as HELD_0, HELD_1, HELD_2, with the site told apart
BATCHES = [(ALONE,), (HELD_0, STORE_2), (HELD_0, HELD_1, STORE_3), (HELD_0, HELD_1, HELD_2, STORE_4)]
SITES = {0: 1, 1: 2, 300: 3, 65535: 1}  # a site's events
LEADS, THREADS_X = (5, 19), 8
GAP = 8  # words between rows that nobody may touch

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")


def source(name: str) -> str:
    return (resources.files("tileops.trace") / "device" / name).read_text(encoding="utf-8")


def without_asm(text: str) -> str:
    """The CUDA recorder with calls of ``host_ptx::run`` for its asm statements."""

    def call(match: re.Match[str]) -> str:
        template = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', match["template"]))
        outputs = [operand[1] for operand in re.findall(r'"=(\w)"\(((?:[^()]|\([^()]*\))*)\)', match["outputs"])]
        inputs = [operand[1] for operand in re.findall(r'"(\w)"\(((?:[^()]|\([^()]*\))*)\)', match["inputs"])]
        wide = "".join(f"uint64_t out{number} = 0; " for number in range(len(outputs)))
        back = "".join(f" {name} = (decltype({name}))out{number};" for number, name in enumerate(outputs))
        pointers = ", ".join(f"&out{number}" for number in range(len(outputs)))
        values = ", ".join(f"(uint64_t)({value})" for value in inputs)
        return f'{{ {wide}host_ptx::run("{template}", {{{pointers}}}, {{{values}}});{back} }}'

    operands = r'(?:"=?\w+"(?:\((?:[^()]|\([^()]*\))*\))?|[\s,])*'
    statement = (
        r'asm\s+volatile\s*\((?P<template>(?:"(?:[^"\\]|\\.)*"|\s)+)'
        rf":?(?P<outputs>{operands}):?(?P<inputs>{operands}):?(?:{operands})\)\s*;"
    )
    replaced, count = re.subn(statement, call, text)
    assert count == text.count("asm volatile") > 4
    return replaced


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Builds the program that runs a recorder on what it reads; see recorder_host.cpp."""

    @functools.cache
    def build_once(name: str) -> Path:
        cuda = name == "recorder.cuh"
        folder = tmp_path_factory.mktemp("recorder")
        header = folder / "recorder.h"
        if cuda:
            header.write_text(f'#include "{HERE / "host_ptx.h"}"\n' + without_asm(source(name)))
        else:
            header.write_text("#define TILEOPS_GROUPS 2\n" + source(name))
        program = folder / ("cuda" if cuda else "cpu")
        command = [COMPILER, *FLAGS, f"-DTILEOPS_HOST_CUDA={int(cuda)}", "-include", header, HERE / "recorder_host.cpp",
                   "-o", program]  # fmt: skip
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return program

    return build_once


@pytest.fixture(params=["recorder_cpu.h", "recorder.cuh"])
def recorder(request: pytest.FixtureRequest, build: Callable[[str], Path]) -> Path:
    return build(request.param)


def drive(
    program: Path, buffer: np.ndarray, head: list[int], runs: list[tuple[list[int], list[list[int]]]]
) -> np.ndarray:
    words = [len(buffer), *head]
    content = struct.pack(f"<{len(words)}q", *map(_signed, words)) + buffer.tobytes()
    for where, ops in runs:
        flat = [*where, len(ops), *(word for op in ops for word in (*op, 0, 0, 0, 0, 0)[:6])]
        content += struct.pack(f"<{len(flat)}q", *map(_signed, flat))
    done = subprocess.run([str(program)], input=content, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return np.frombuffer(done.stdout, dtype=np.uint64)


def _signed(word: int) -> int:
    return word - model.WRAP if word >= model.WRAP // 2 else word


@st.composite
def marks(draw: Any, payloads: tuple[bool, bool], cuda: bool) -> list[list[int]]:
    """What a thread does in one block: markers of both groups, perhaps an early return.

    Up to four of a group that follow each other may be a batch, whatever the other group does in between. On the GPU
    all records of a batch of up to three may be held back, some with their sites told apart, and then be stored by a
    call of its own. Behind what the recorder is told stands whether an operation is the last one of its batch.
    """
    ops: list[list[int]] = []
    sites = st.tuples(st.integers(0, 1), st.sampled_from([*SITES]), st.integers(0, 3), st.integers(0, 2**32 - 1))
    for group, site, kind, bits in draw(st.lists(sites, max_size=40)):
        ops.append([kind if payloads[group] else MARK, group, site, SITES[site], bits, ALONE, False])
    sizes = draw(st.lists(st.integers(1, 4), min_size=len(ops), max_size=len(ops)))
    stores: dict[int, list[list[int]]] = {}  # behind which operation, by identity
    for group in range(2):
        left = [op for op in ops if op[1] == group]
        while left:
            batch, left = left[: sizes[-1]], left[sizes.pop() :]
            batch[-1][6] = True
            if cuda and len(batch) < 4 and draw(st.booleans()):
                late = [op[0] != MARK_FLOAT and draw(st.booleans()) for op in batch]
                for place, op in enumerate(batch):
                    op[5] = place + (LATE_0 if late[place] else HELD_0)
                settled = [[SETTLE, group, place, draw(st.sampled_from([*SITES]))] for place in range(len(batch))
                           if late[place]]  # fmt: skip
                stores[id(batch[-1])] = [*settled, [FLUSH, group, len(batch)]]
            else:
                for op, way in zip(batch, BATCHES[len(batch) - 1]):
                    op[5] = way
    ops = _told([one for op in ops for one in (op, *stores.get(id(op), []))], draw)
    ops.append([LEAVE if draw(st.integers(0, 4)) == 0 else END])
    return ops


def _told(ops: list[list[int]], draw: Any) -> list[list[int]]:
    """The same, in which each record whose site is told apart has it told: ahead, or where one was put together."""
    told: dict[tuple[int, int], list[int]] = {}  # of a group and a place: where one was put together
    made = []
    for op in ops:
        if op[0] == SETTLE:
            told[op[1], op[2]] = op
        elif is_marker(op) and op[5] >= LATE_0:
            place = op[5] - LATE_0
            before = told.get((op[1], place))
            if before is not None and draw(st.booleans()):
                before[3] = op[2]
            else:
                more = draw(st.integers(-2, op[3]))
                op[3] -= more
                made.append([FIRST, op[1], place, op[2], more])
        made.append(op)
    return made


def is_marker(op: list[int]) -> bool:
    return op[0] <= MARK_FLOAT


def stored(marked: list[list[int]], capacity: int, keep_last: bool, cuda: bool) -> dict[int, list[int]]:
    """Which marker each place of a row holds at the end, those behind the row's last included."""
    held: dict[int, list[int]] = {}
    first = 0  # of the batch
    for number, op in enumerate(marked):
        if keep_last:
            held[number % capacity] = op
        elif number < capacity or (cuda and first < capacity):
            held[number] = op
        if op[6]:
            first = number + 1
    return held


@settings(max_examples=60, deadline=None, suppress_health_check=[*HealthCheck])
@given(st.data())
def test_rows_hold_exactly_what_was_marked(recorder: Path, data: st.DataObject) -> None:
    cuda = recorder.name == "cuda"
    keep_last = data.draw(st.booleans())
    capacity = data.draw(st.sampled_from([1, 4, 16] if keep_last else [1, 3, 16]))
    payloads = data.draw(st.sampled_from([(False, True), (True, False)]))
    places = layout([*payloads], capacity)
    grid = [data.draw(st.integers(1, 4)) for _ in range(3)]
    recorded = data.draw(st.lists(st.sampled_from([True, True, True, False]), min_size=1, max_size=3))
    blocks = len(recorded)
    # One row behind the other, with gaps that nobody may touch.
    starts = np.cumsum([GAP] + [place.row_words + GAP for _ in range(blocks) for place in places])
    words = int(starts[-1])
    before = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, model.WRAP, words, dtype=np.uint64)
    clock = data.draw(st.sampled_from([0, model.WRAP - 40, (1 << 32) - 30, (1 << 48) - 30]))

    producers = data.draw(st.sampled_from([0, 4])) if cuda else 0
    elected = [producers + lead % THREADS_X + (THREADS_X + producers) * (lead // THREADS_X) for lead in LEADS]
    others = data.draw(st.lists(st.integers(0, 3 * (THREADS_X + producers) - 1), max_size=2)) if cuda else []
    others = [thread for thread in others if thread not in elected]
    threads = [*elected, *others] if cuda else [0]
    runs, expected = [], {}
    for block in range(blocks):
        for thread in threads:
            ops = data.draw(marks(payloads, cuda))
            x, y = thread % (THREADS_X + producers), thread // (THREADS_X + producers)
            at = [int(start) for start in starts[2 * block : 2 * block + 2]]
            runs.append(([*at, x, y, 0, THREADS_X + producers, 3, int(recorded[block])], ops))
            for group in range(2):
                if recorded[block] and (not cuda or thread == elected[group]):
                    expected[block, group] = (len(runs) - 1, ops)
    record_bytes = [place.record_words * 8 for place in places]
    after = drive(recorder, before, [capacity, *record_bytes, len(runs), *grid, clock, 7, int(keep_last)], runs)

    touched = np.zeros(words, dtype=bool)
    for (block, group), (run, ops) in expected.items():
        start, place = int(starts[2 * block + group]), places[group]
        row = model.read_row(after[start:], place, keep_last)
        marked = [op for op in ops if is_marker(op) and op[1] == group]
        # On the CPU a block that leaves early is not closed; on the GPU it is.
        done = cuda or ops[-1] == [END]
        assert row["state"] == ("done" if done else "open")
        assert row["grid"] == tuple(grid)
        assert row["sm"] == (131 if cuda else row["sm"])
        touched[start : start + HEADER_WORDS] = True
        held = stored(marked, capacity, keep_last, cuda)
        assert max(held, default=0) < (capacity if keep_last else capacity + SPARE_RECORDS)
        for number, op in held.items():
            word = start + HEADER_WORDS + number * place.record_words
            touched[word : word + place.record_words] = True
            since = (int(after[word]) - int(after[start + 2])) % model.WRAP
            assert since >> 48 == op[2]
            if place.record_words == 2:
                assert int(after[word + 1]) & 0xFFFFFFFF == (op[4] if op[0] != MARK else 0)
        if not done:
            touched[start + 4 : start + 6] = False
            continue
        assert (row["count"], row["events"]) == (len(marked), sum(SITES[op[2]] for op in marked))
        kept = marked[-capacity:] if keep_last else marked[:capacity]
        assert [site for site, _, _ in row["records"]] == [op[2] for op in kept]
        for (_, _, bits), op in zip(row["records"], kept):
            assert bits == (op[4] if op[0] != MARK else 0)
        times = [0, *(time for _, time, _ in row["records"]), (row["end"] - row["begin"]) % model.WRAP]
        assert times == sorted(times)
        assert row["end_ns"] >= row["begin_ns"]
        if cuda:
            check_clocks(row, ops, group, run)
    assert (after[~touched] == before[~touched]).all()


def check_clocks(row: dict[str, Any], ops: list[list[int]], group: int, run: int) -> None:
    """The host's clock moves on by 7 at each reading, whoever reads, so every time is known."""
    # One reading for each marker of either group; between begin and end, nothing else but the other group's opening
    # and closing, if the same thread does both. (No thread here does: there are two leads.)
    markers = [op for op in ops if is_marker(op)]
    readings = [number for number, op in enumerate(markers, 1) if op[1] == group]
    times = [time for _, time, _ in row["records"]]
    first = model.first_kept(row["count"], len(times), row["keep_last"])
    assert times == [7 * number for number in readings[first : first + len(times)]]
    assert (row["end"] - row["begin"]) % model.WRAP == 7 * (len(markers) + 1)
    assert row["begin_ns"] == row["end_ns"] == run * 32


@pytest.mark.parametrize("producers", [0, 1, 4, 8])
def test_one_thread_of_a_block_records(build: Callable[[str], Path], producers: int) -> None:
    recorder = build("recorder.cuh")
    places = layout([False, True], 1)
    line = places[1].end
    width = THREADS_X + producers
    threads = [(x, y, z) for z in range(2) for y in range(3) for x in range(width)]
    ops = [[MARK, 0, 0, 1, 0], [MARK, 1, 1, 2, 0], [END]]
    # Each thread gets rows of its own, so that one that should not have written to them is seen.
    runs = [([line * at, line * at + places[1].offset, *xyz, width, 3, 1], ops) for at, xyz in enumerate(threads)]
    before = np.zeros(line * len(threads), dtype=np.uint64)
    lines = drive(recorder, before, [1, 8, 16, len(runs), 1, 1, 1, 0, 7, 0], runs).reshape(len(threads), line)
    for group, place in enumerate(places):
        wrote = [xyz for xyz, words in zip(threads, lines) if words[place.offset : place.end].any()]
        assert wrote == [(producers + LEADS[group] % THREADS_X, LEADS[group] // THREADS_X, 0)]


@pytest.mark.parametrize("batch", BATCHES, ids=["1", "2", "3", "4"])
@pytest.mark.parametrize("keep_last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("jump", [COUNT_LIMIT - 3, COUNT_LIMIT - 2, COUNT_LIMIT - 1, COUNT_LIMIT])
def test_the_count_saturates(recorder: Path, keep_last: bool, batch: tuple[int, ...], jump: int) -> None:
    """Four billion markers later it stands still, and nothing is stored outside the row, nor in a row that is full."""
    capacity = 4 if keep_last else 3
    one = [[MARK, 0, 0, 1, 0, ALONE]]
    more = [[MARK, 0, 0, 1, 0, way] for way in batch]
    for payload, record_bytes in ((False, [8, 16]), (True, [16, 8])):
        place, other = layout([payload, not payload], capacity)
        size = place.row_words + other.row_words + 2 * GAP
        before = np.full(size, 0xABCDEF, dtype=np.uint64)
        x, y = LEADS[0] % THREADS_X, LEADS[0] // THREADS_X
        where = [GAP, place.row_words + 2 * GAP, x, y, 0, THREADS_X, 3, 1]
        ops = [*one, [JUMP, 0, jump], *more * 5, [END]]
        head = [capacity, *record_bytes, 1, 1, 1, 1, 0, 7, int(keep_last)]
        after = drive(recorder, before, head, [(where, ops)])
        row = model.read_row(after[GAP:], place, keep_last)
        assert row["count"] == COUNT_LIMIT
        first_free = GAP + HEADER_WORDS + (capacity if keep_last else 1) * place.record_words
        assert after[:GAP].tolist() == before[:GAP].tolist()
        assert (after[first_free : GAP + place.row_words + GAP] == 0xABCDEF).all()
        if not keep_last:
            assert row["records"][0][0] == 0


def test_a_write_outside_a_buffer_would_be_seen(recorder: Path) -> None:
    """The sanitizer is on: a buffer that is too short ends the program."""
    place = layout([False], 16)[0]
    before = np.zeros(place.row_words, dtype=np.uint64)
    x, y = LEADS[1] % THREADS_X, LEADS[1] // THREADS_X
    where = [0, place.row_words - 8, x, y, 0, THREADS_X, 3, 1]
    with pytest.raises(AssertionError, match="AddressSanitizer: heap-buffer-overflow"):
        drive(recorder, before, [16, 16, 8, 1, 1, 1, 1, 0, 7, 0], [(where, [[MARK, 1, 0, 1, 0], [END]])])


@pytest.mark.parametrize("payload", [False, True])
def test_a_batch_without_room_behind_the_row_would_be_seen(build: Callable[[str], Path], payload: bool) -> None:
    """What a batch holds past the capacity is stored: into the room that every row has for it."""
    capacity, x, y = 16, LEADS[1] % THREADS_X, LEADS[1] // THREADS_X
    place = layout([payload], capacity)[0]
    ops = [*[[MARK, 1, 0, 1, 0]] * (capacity - 1), *([MARK, 1, 300, 3, 0, way] for way in BATCHES[-1]), [END]]
    head = [capacity, *((8, 16) if payload else (16, 8)), 1, 1, 1, 1, 0, 7, 0]
    where = [0, 0, x, y, 0, THREADS_X, 3, 1]
    after = drive(build("recorder.cuh"), np.zeros(place.row_words, dtype=np.uint64), head, [(where, ops)])
    words = HEADER_WORDS + (capacity + SPARE_RECORDS) * place.record_words
    assert (after[HEADER_WORDS : words : place.record_words] >> np.uint64(48)).tolist() == [0] * 15 + [300] * 4
    assert not after[words:].any()
    too_short = HEADER_WORDS + capacity * place.record_words
    with pytest.raises(AssertionError, match="AddressSanitizer: heap-buffer-overflow"):
        drive(build("recorder.cuh"), np.zeros(too_short, dtype=np.uint64), head, [(where, ops)])
