#!/usr/bin/env python3
"""Set up this clone and run it. Needs Python 3.10 to 3.12 and nothing else installed.

    python3 dev.py demo [--output DIR]         trace a GEMM and print where its time goes
    python3 dev.py test [pytest's arguments]   run the tests; without arguments all of them, on several cores
    python3 dev.py check                       lint and type-check
    python3 dev.py setup                       install what `test` and `check` need, run nothing

Everything from PyPI goes into .venv; a second run installs nothing unless pyproject.toml changed. As root on Debian,
`test` also installs Chromium, and both `demo` and `test` a C++ compiler, where these are missing. `check` also checks
the types of the page's JavaScript if the machine has npm, which puts TypeScript into node_modules.

Environment:

    TILEOPS_TORCH   what pip is to install as PyTorch: a requirement, a wheel's path, or "torch --index-url URL".
                    Without it: the PyTorch that this Python has already, else PyPI's.
"""

# Python 3.7 can parse this file, so that it can say that it is too old.
from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "tileops-setup.json"

OLDEST, NEWEST = (3, 10), (3, 12)
# The release that package mirrors are known to carry as a CPU build, for Python 3.11.
CPU_TORCH = "torch==2.13.0"
# The release whose generated code the tests were written against; the package itself takes later ones.
TILELANG = "tilelang==0.1.15"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")

# Extras of pyproject.toml that a command needs.
EXTRAS: dict[str, set[str]] = {
    "demo": set(),
    "test": {"test", "lint"},
    "check": {"test", "lint"},
    "setup": {"test", "lint"},
}
# How many processes tests and type checks are spread over.
JOBS = str(min(os.cpu_count() or 1, 4))
CHECKS = (["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy", "--num-workers", JOBS])


class SetupError(Exception):
    """Something that only the user can change; shown as one line."""


def say(text: str) -> None:
    """Print at once: pip and apt write to the same place."""
    print(text, flush=True)


def call(*command: object, cwd: Path = ROOT, env: dict[str, str] | None = None) -> int:
    """Run a command with its output shown; return its exit status."""
    return subprocess.call([str(part) for part in command], cwd=str(cwd), env=env)


def output_of(*command: object) -> str | None:
    """What a command prints, or None if it fails."""
    try:
        printed = subprocess.check_output([str(part) for part in command], stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        return None
    return printed.decode(errors="replace").strip()


def works(python: object) -> bool:
    """Whether a Python starts: a version manager's shim can be there for one that is not."""
    return output_of(python, "-c", "print(1)") == "1"


@functools.lru_cache(maxsize=None)  # noqa: UP033 (functools.cache came with 3.9)
def has_gpu() -> bool:
    """Whether NVIDIA's driver shows a GPU."""
    return os.path.exists("/dev/nvidiactl") or "GPU" in (output_of("nvidia-smi", "-L") or "")


def find(*names: str) -> str | None:
    """The path of the first of these programs that the machine has."""
    return next(filter(None, map(shutil.which, names)), None)


def find_compiler() -> str | None:
    """The C++ compiler that TileLang will take."""
    return os.environ.get("CXX") or find("g++", "clang++", "c++")


def find_nvcc() -> str | None:
    """The machine's nvcc, from the places where TileLang looks for it."""
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    return find("nvcc", *(os.path.join(home, "bin", "nvcc") for home in homes if home))


def use_supported_python() -> None:
    """Go on under a supported Python outside .venv: this one, else one on the PATH.

    Raises:
        SetupError: if there is none.
    """
    if OLDEST <= sys.version_info[:2] <= NEWEST:
        if Path(sys.prefix) == VENV:  # Activated. It cannot rebuild itself.
            base = os.path.realpath(sys.executable)
            os.execv(base, [base, *sys.argv])
        return
    wanted = "Python {}.{} to {}.{}".format(*OLDEST, *NEWEST)
    here = platform.python_version()
    for name in ("python3.11", "python3.12", "python3.10"):
        path = shutil.which(name)
        if path and works(path):
            say(f"tileops needs {wanted}, this is {here}: going on with {path}")
            os.execv(path, [path, *sys.argv])
    raise SetupError(f"tileops needs {wanted}; this is {here}, and no other is on the PATH")


def pip_install(what: str, *requirements: str) -> None:
    """Install into the virtual environment.

    Raises:
        SetupError: if pip fails; what it says is on the screen by then.
    """
    if call(PYTHON, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", *requirements):
        raise SetupError(f"pip could not install {what}; its message above says why (no network? no space?)")


def borrow_torch() -> str | None:
    """Make the PyTorch of the Python that runs this file visible in the virtual environment.

    Returns:
        Its version, or None if this Python has none that can be imported.
    """
    code = "import pathlib, torch; print(); print(torch.__version__); print(pathlib.Path(torch.__file__).parents[1])"
    found = output_of(sys.executable, "-c", code)
    if not found:
        return None
    version, folder = found.splitlines()[-2:]
    # A .pth file rather than --system-site-packages, which would not see into a virtual environment.
    site_packages = output_of(PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    assert site_packages
    Path(site_packages, "tileops-torch.pth").write_text(f"import site; site.addsitedir({folder!r})\n")
    return version


def install_torch() -> None:
    """Install PyTorch before anything asks for it, so that what asks takes the build that is there."""
    override = os.environ.get("TILEOPS_TORCH")
    if override:
        pip_install("PyTorch", *shlex.split(override))
        return
    version = borrow_torch()
    if version:
        say(f"using the PyTorch {version} of {sys.executable}")
    elif has_gpu():
        pip_install("PyTorch", "torch")
    else:
        say("no GPU: if pip starts on gigabytes of CUDA, stop it and set TILEOPS_TORCH (README, 'Without a GPU')")
        pip_install("PyTorch", CPU_TORCH)


def set_up(command: str) -> None:
    """Create the virtual environment and install what a command needs, unless that has been done.

    Raises:
        SetupError: if a step fails.
    """
    extras = set(EXTRAS[command])
    if not find_nvcc() and (has_gpu() or command != "demo"):
        extras.add("nvcc")
    base = {"root": str(ROOT), "python": sys.version, "torch": os.environ.get("TILEOPS_TORCH")}
    project = hashlib.sha256(TILELANG.encode() + (ROOT / "pyproject.toml").read_bytes()).hexdigest()
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        stamp = {}
    usable = stamp.get("base") == base and works(PYTHON)
    if usable:
        extras.update(stamp["extras"])
        if stamp["project"] == project and extras == set(stamp["extras"]):
            return

    began = time.time()
    if not usable:
        say(f"[1/3] Virtual environment .venv, Python {platform.python_version()}")
        # One of another Python or another torch, or copied along with the clone, is of no use.
        if call(sys.executable, "-m", "venv", *(["--clear"] if stamp else []), VENV):
            raise SetupError("this Python cannot create virtual environments (on Debian, install python3-venv)")
        say("[2/3] PyTorch")
        install_torch()
    target = f".[{','.join(sorted(extras))}]" if extras else "."
    say(f"[3/3] TileLang, tileops and what they need: {target}")
    pip_install("tileops", TILELANG, "-e", target)
    STAMP.write_text(json.dumps({"base": base, "project": project, "extras": sorted(extras)}))
    say(f"Set up in {time.time() - began:.0f} s")


def apt_install(*packages: str) -> None:
    """Install Debian's packages, where that is allowed; the caller looks whether it worked."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return
    say(f"Installing Debian's {', '.join(packages)}")
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    call("apt-get", "-q", "update", env=environment)
    call("apt-get", "-q", "install", "-y", "--no-install-recommends", *packages, env=environment)


def provide_compiler() -> None:
    """A C++ compiler: the machine's, else Debian's, else one from PyPI."""
    path = VENV / "bin" / "c++"
    if find_compiler() or path.exists():
        return
    apt_install("g++", "libc6-dev")
    if find_compiler():
        return
    say("No C++ compiler: installing Zig's, from PyPI. It builds its C++ library first, which takes some minutes.")
    pip_install("a C++ compiler", "ziglang")
    # Zig's debug builds trap on what other compilers let pass, unless told not to.
    path.write_text(f'#!/bin/sh\nexec "{PYTHON}" -m ziglang c++ -w -fno-sanitize=undefined "$@"\n')
    path.chmod(0o755)


def provide_browser() -> None:
    """Chromium: the machine's, else Debian's, else none."""
    if find(*BROWSERS):
        return
    apt_install("chromium", "fonts-dejavu-core")
    if not find(*BROWSERS):
        say("No Chromium: the tests that open the HTML page in a browser are skipped. Install the package chromium.")


def run(command: str, arguments: list[str]) -> int:
    """Run a command in the virtual environment; return its exit status."""
    # The virtual environment's own programs come last: the C++ compiler in it is for want of another.
    environment = dict(os.environ, PATH=os.pathsep.join([os.environ.get("PATH", os.defpath), str(VENV / "bin")]))
    if command == "demo":
        return call(PYTHON, "-m", "tileops", "demo", *arguments, env=environment, cwd=Path.cwd())
    if command == "test":
        if not has_gpu():
            say("No GPU: the tests marked gpu are skipped.")
        # pip compiles what it installs but for this. Else each command that a test starts would do it anew where the
        # environment forbids Python to write down what it compiled.
        call(PYTHON, "-m", "compileall", "-q", "src")
        # Spread by file, so that a kernel which a file's tests share is built once.
        spread = ["-n", JOBS, "--dist", "loadfile", "--durations", "12"]
        return call(PYTHON, "-m", "pytest", *(arguments or spread), env=environment)
    if command == "check":
        return max([*(call(PYTHON, "-m", *check, env=environment) for check in CHECKS), check_javascript()])
    return 0


def check_javascript() -> int:
    """Check the types of the timeline page's scripts with TypeScript, at the release that package-lock.json names."""
    npm = find("npm")
    if npm is None:
        say("not checked: the types of the page's JavaScript, which needs npm")
        return 0
    lock, stamp = ROOT / "package-lock.json", ROOT / "node_modules" / ".package-lock.json"
    old = not stamp.exists() or stamp.stat().st_mtime < lock.stat().st_mtime
    if old and call(npm, "ci", "--no-audit", "--no-fund"):
        return 1
    return call(npm, "run", "--silent", "check")


def main(arguments: list[str]) -> int:
    """Run the command that the first argument names; return the exit status."""
    if not arguments or arguments[0] not in EXTRAS:
        say(str(__doc__))
        return 0 if arguments in (["-h"], ["--help"]) else 2
    command = arguments[0]
    try:
        if os.name != "posix":
            raise SetupError("tileops needs Linux; on Windows, use WSL")
        use_supported_python()
        set_up(command)
        if command != "check":
            provide_compiler()
        if command in ("test", "setup"):
            provide_browser()
        return run(command, arguments[1:])
    except SetupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
