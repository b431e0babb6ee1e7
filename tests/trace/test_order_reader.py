"""The reader of machine code, and how clock reads are traced to records, on code written by hand."""

from __future__ import annotations

import pytest

from .clock_reads import ClockReads
from .sass import Function, parse

HEAD = """\t.section\t.text.k,"ax",@progbits\nk:\n"""


def function(text: str) -> Function:
    """One instruction or label a line; addresses are added."""
    lines = [line.strip() for line in text.strip().splitlines()]
    code = (line if line.endswith(":") else f"        /*{at:04x}*/   {line} ;" for at, line in enumerate(lines))
    return parse(HEAD + "\n".join(code))["k"]


def last_ones(code: Function) -> dict[str, set[str | None]]:
    """For each ``NOP n``, the ``CS2R m`` that can be the last one before it, by their numbers."""
    reaching = code.reaching({at: code.code[at].operands[0] for at in code.find("CS2R")})
    return {code.code[at].operands[0]: set(reaching[at]) for at in code.find("NOP")}


def test_reader_follows_slow_paths_out_of_line() -> None:
    code = function("""
        CS2R 1
        TRY:
        SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R9+URZ], R20
        @!P0 BRA `(SLOW)
        BACK:
        NOP waited
        CS2R 2
        @P1 EXIT
        NOP stayed
        BRA `(END)
        SLOW:
        NOP slow
        @!P0 BRA `(SLOW)
        BRA `(BACK)
        NOP never
        END:
        CS2R 3
        EXIT
        CS2R 4
        """)
    assert last_ones(code) == {"waited": {"1"}, "stayed": {"2"}, "slow": {"1"}}
    assert [code.code[at].operands for at in code.find("CS2R")] == [("1",), ("2",), ("3",)]


def test_reader_joins_what_may_have_been_passed() -> None:
    code = function("""
        BRA.DIV UR4, `(APART)
        CS2R 1
        JOIN:
        NOP joined
        @P0 CS2R 3
        NOP guarded
        @!PT CS2R 4
        NOP padding
        AGAIN:
        NOP loop
        CS2R 5
        @P1 BRA `(AGAIN)
        EXIT
        APART:
        BSSY B0, `(AFTER)
        WARPSYNC.COLLECTIVE R2, `(COLLECTED)
        CS2R 2
        ENDCOLLECTIVE
        COLLECTED:
        BSYNC B0
        AFTER:
        BRA `(JOIN)
        """)
    assert last_ones(code) == {
        "joined": {"1", "2", None},
        "guarded": {"1", "2", "3", None},
        "padding": {"1", "2", "3", None},
        "loop": {"1", "2", "3", "5", None},
    }


def test_reader_passes_calls_and_enters_them() -> None:
    code = function("""
        CS2R 1
        CALL.REL.NOINC `($k$divide)
        NOP first
        CS2R 2
        CALL.REL.NOINC `($k$divide)
        NOP second
        EXIT
        $k$divide:
        NOP called
        RET.REL.NODEC R4 `(k)
        """)
    assert last_ones(code) == {"first": {"1"}, "second": {"2"}, "called": {"1", "2"}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("BRX R4 -0x10", "cannot follow BRX"),
        ("BRA `(NOWHERE)", r"no label for BRA `\(NOWHERE\)"),
        ("BSSY B0, `(AWAY)\nBSYNC B0\nNOP\nAWAY:\nEXIT", "BSYNC B0 does not stand where its BSSY joins"),
    ],
)
def test_reader_refuses_what_it_cannot_follow(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        function(text).find("NOP")


@pytest.mark.parametrize(
    ("text", "written", "read"),
    [
        ("CS2R R4, SR_CLOCKLO", "R4 R5", ""),
        ("CS2R.32 R4, SR_CLOCKLO", "R4", ""),
        ("@!P1 STG.E.64 desc[UR16][R2.64+0x40], R4", "", "P1 UR16 R2 R3 R4"),
        ("IMAD.WIDE R12, R3.reuse, 0x8, R12", "R12 R13", "R3 R12"),
        ("LDG.E.128.CONSTANT R4, desc[UR6][R8.64]", "R4 R5 R6 R7", "UR6 R8 R9"),
        ("SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [R9+URZ+0x18], R20", "", "P1 R9 R20"),
        ("ISETP.NE.OR P0, PT, R3, 0x100, !P0", "", "P0 R3"),
        ("LEA R2, P3, R19, R12, 0x3", "R2", "P3 R19 R12"),
        ("ATOM.E.ADD.F32.FTZ.RN.STRONG.GPU P1, R9, desc[UR6][R6.64], R8", "R9", "P1 UR6 R6 R7 R8"),
        ("ULDC.64 UR4, c[0x0][0x198]", "UR4 UR5", ""),
        ("HGMMA.64x8x16.F32 R24, gdesc[UR4], R24, gsb0", "R24 R25 R26 R27", "UR4 R24"),
        ("BAR.SYNC R0, R1", "", "R0 R1"),
    ],
)
def test_reader_knows_registers(text: str, written: str, read: str) -> None:
    (instruction,) = function(text).code
    assert instruction.written == tuple(written.split())
    assert instruction.read == set(read.split())


def traced_clocks(text: str) -> ClockReads:
    return ClockReads(function(text.replace("CLOCK", "CS2R R4, SR_CLOCKLO").replace("; ", "\n") + "\nEXIT"))


@pytest.mark.parametrize(
    ("text", "sites"),
    [
        ("CLOCK; STG.E.64 [R2.64+0x40], R4", {0}),
        ("CLOCK; VIADD R5, R5, 0x30000; STG.E.64 [R2.64], R4", {3}),
        ("CLOCK; IADD3 R9, R5, 0x30000, RZ; MOV R8, R4; @P0 STG.E.64 [R2.64], R8", {3}),
        ("MOV R7, 0x20000; CLOCK; IMAD.IADD R5, R5, 0x1, R7; STG.E.128 [R2.64], R4", {2}),
        ("UMOV UR7, 0x20000; CLOCK; VIADD R5, R5, UR7; STG.E.64 [R2.64], R4", {2}),
        ("SEL R7, RZ, 0x10000, P0; CLOCK; VIADD R5, R5, R7; STG.E.64 [R2.64], R4", {0, 1}),
        ("CLOCK; VIADD R9, R5, 0x10000; @P0 IMAD.MOV R9, RZ, RZ, R5; MOV R8, R4; STG.E.64 [R2.64], R8", {0, 1}),
        ("CLOCK; @P0 BRA `(B); VIADD R5, R5, 0x10000; B:; STG.E.64 [R2.64], R4", {0, 1}),
    ],
)
def test_clock_reads_are_traced_to_their_records(text: str, sites: set[int]) -> None:
    reads = traced_clocks(text)
    assert list(reads.sites.values()) == [sites]
    assert not reads.headers


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CLOCK", "not stored on a path to EXIT"),
        ("CLOCK; @P0 EXIT; STG.E.64 [R2.64], R4", "not stored on a path to @P0 EXIT"),
        ("CLOCK; MOV R4, R8; STG.E.64 [R2.64], R4", "not stored"),
        ("CLOCK; IMAD R5, R5, R5, R5; STG.E.64 [R2.64], R4", "halves"),
        ("CLOCK; STG.E.64 [R2.64], R4; STG.E.64 [R2.64+0x8], R4", "and again"),
        ("A:; CLOCK; @P0 BRA `(A); STG.E.64 [R2.64], R4", "not stored on a path to CS2R"),
        ("CLOCK; @P0 BRA `(B); MOV R4, R8; B:; STG.E.64 [R2.64], R4", "something else than a clock"),
    ],
)
def test_clock_reads_that_come_to_nothing_are_noticed(text: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        traced_clocks(text)
