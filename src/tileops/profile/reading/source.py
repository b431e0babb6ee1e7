"""The bytes of a trace, plain or gzipped, a block at a time.

A thread of its own reads and decompresses ahead: neither needs the interpreter, which decoding keeps busy. On two
cores, gzipped traces of 300 MB came at 81 to 105 MB of JSON a second in six runs, and at 69 to 88 in three without it.
"""

from __future__ import annotations

import queue
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from ..errors import ProfileError

# Bytes of the file at a time, and of what is decompressed at most: the thread has to get hold of the interpreter for
# each block, which takes some 5 ms while another one decodes.
_BLOCK, _INFLATED = 512 << 10, 2 << 20
_AHEAD = 8  # blocks
Item = TypeVar("Item")

_GZIP = b"\x1f\x8b"
# What people hand over instead of a trace, by what such a file begins with.
_OTHERS = {
    b"PK\x03\x04": "a zip archive: unpack it first",
    b"(\xb5/\xfd": "compressed with Zstandard: decompress it with `zstd -d` first",
    b"BZh": "compressed with bzip2: decompress it with `bunzip2` first",
    b"\xfd7zXZ": "compressed with xz: decompress it with `xz -d` first",
    b"\x80\x04": "a pickle; a CUDA memory snapshot is looked at with https://pytorch.org/memory_viz, not here",
    b"SQLite format": "a database, such as Nsight Systems writes; this reads torch.profiler's Chrome traces",
}


def blocks(path: Path, said: list[str], progress: Callable[[int, int], None] | None = None) -> Iterator[bytes]:
    """A file's content, decompressed.

    Args:
        path: the file. Whether it is gzipped is seen from its content, not from its name.
        said: gets a sentence if the compressed data is damaged; what came before it has been given by then.
        progress: is called with the bytes of the file that are read and all of them.

    Raises:
        ProfileError: if the file cannot be read, is empty, or is plainly something else.
    """
    for block, done, size in _ahead(_read(path, said)):
        if block:
            yield block
        if progress is not None:
            progress(done, size)


def _read(path: Path, said: list[str]) -> Iterator[tuple[bytes, int, int]]:
    """Blocks of a file's content, each with how much of the file has been read and how much there is."""
    try:
        with open(path, "rb") as file:
            size = path.stat().st_size
            first = file.read(_BLOCK)
            if not first:
                raise ProfileError(f"{path}: the file is empty; was the program that wrote it interrupted?")
            for magic, what in _OTHERS.items():
                if first.startswith(magic):
                    raise ProfileError(f"{path}: this is {what}")
            inflate = _Inflate(said) if first.startswith(_GZIP) else None
            done, block = 0, first
            while block:
                done += len(block)
                for part in [block] if inflate is None else inflate(block):
                    yield part, done, size
                if inflate is not None and inflate.broken:
                    return
                block = file.read(_BLOCK)
            if inflate is not None:
                inflate.finish()
    except OSError as error:
        raise ProfileError(f"{path}: cannot be read: {error.strerror or error}") from error


def _ahead(stream: Iterator[Item]) -> Iterator[Item]:
    """The same items, which a thread asks for ahead of time; an error comes where it stands in the stream."""
    waiting: queue.Queue[tuple[bool, Any]] = queue.Queue(_AHEAD)
    left = threading.Event()

    def put(*one: Any) -> bool:
        while not left.is_set():
            try:
                waiting.put(one, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def run() -> None:
        try:
            for item in stream:
                if not put(True, item):
                    return
            put(False, None)
        except BaseException as error:
            put(False, error)

    thread = threading.Thread(target=run, name="tileops-read-ahead", daemon=True)
    thread.start()
    try:
        while True:
            goes_on, item = waiting.get()
            if goes_on:
                yield item
            elif item is None:
                return
            else:
                raise item
    finally:
        left.set()
        thread.join()


class _Inflate:
    """Gzip, several members too, that gives what it can of a damaged file."""

    def __init__(self, said: list[str]):
        self.broken = False
        self._said = said
        self._stream = zlib.decompressobj(wbits=31)

    def __call__(self, block: bytes) -> Iterator[bytes]:
        while block and not self.broken:
            if self._stream.eof:
                block = block.lstrip(b"\0")  # padding, as tapes and some object stores leave it
                if not block:
                    return
                self._stream = zlib.decompressobj(wbits=31)
            try:
                # At most so much at once: 1 MB of zeros, compressed, is 1 GB.
                out = self._stream.decompress(block, _INFLATED)
            except zlib.error as error:
                self.broken = True
                self._said.append(f"The compressed data is damaged ({error}); what stands behind that is missing.")
                return
            if out:
                yield out
            block = self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail

    def finish(self) -> None:
        if not self._stream.eof:
            self._said.append("The compressed file ends too early: it was cut off, and what came last is missing.")
