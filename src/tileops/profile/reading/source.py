"""The bytes of a trace, plain or gzipped, a block at a time."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from ..errors import ProfileError

_BLOCK = 128 << 10
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
                if inflate is None:
                    yield block
                else:
                    yield from inflate(block)
                    if inflate.broken:
                        return
                if progress is not None:
                    progress(done, size)
                block = file.read(_BLOCK)
            if inflate is not None:
                inflate.finish()
    except OSError as error:
        raise ProfileError(f"{path}: cannot be read: {error.strerror or error}") from error


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
                out = self._stream.decompress(block, _BLOCK)
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
