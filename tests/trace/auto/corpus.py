"""The corpus of generated sources: what TileLang made of ``kernels.py``, by version.

    python tests/trace/auto/corpus.py

writes those of the TileLang that is installed, oldest version first. A source that an older version makes in the same
way is kept once, with the older version; ``text`` finds it.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("corpus")
VERSIONS = ("0.1.13", "0.1.14", "0.1.15")
ARCHES = ("sm_90a", "sm_80", "sm_100a")


def names(arch: str) -> list[str]:
    """The kernels that are kept for an architecture."""
    return sorted({p.name.removesuffix(f".{arch}.cu") for v in VERSIONS for p in (FOLDER / v).glob(f"*.{arch}.cu")})


def text(name: str, arch: str, version: str) -> str:
    """What a version of TileLang made of a kernel."""
    at = VERSIONS.index(version)
    for older in reversed(VERSIONS[: at + 1]):
        path = FOLDER / older / f"{name}.{arch}.cu"
        if path.exists():
            return path.read_text()
    raise FileNotFoundError(f"{name} for {arch} of TileLang {version}")


def generated(make: Callable[[], Any], arch: str) -> str:
    """What the installed TileLang makes of a kernel."""
    import tilelang

    target = tilelang.tvm.target.Target({"kind": "cuda", "arch": arch})
    with target:
        return str(tilelang.lower(make(), target=target).kernel_source)


def main() -> None:
    import tilelang
    from kernels import ELSEWHERE, KERNELS, SEVERAL  # type: ignore[import-not-found,unused-ignore]

    version = tilelang.__version__.partition("+")[0]
    folder = FOLDER / version
    folder.mkdir(parents=True, exist_ok=True)
    for arch in ARCHES:
        for name in (*KERNELS, *SEVERAL) if arch == "sm_90a" else ELSEWHERE:
            try:
                made = generated({**KERNELS, **SEVERAL}[name], arch)
            except Exception as error:  # older versions lack arguments that kernels use
                print(f"{name} for {arch}: {error}", file=sys.stderr)
                continue
            try:
                older = VERSIONS[VERSIONS.index(version) - 1] if version != VERSIONS[0] else ""
                known = text(name, arch, older) if older else ""
            except FileNotFoundError:
                known = ""
            path = folder / f"{name}.{arch}.cu"
            path.unlink(missing_ok=True)
            if made != known:
                path.write_text(made)
    print(f"{len(list(folder.iterdir()))} sources of TileLang {version}", file=sys.stderr)


if __name__ == "__main__":
    main()
