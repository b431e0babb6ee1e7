"""How fast GPUs' tensor cores are at most, to hold a kernel's work against."""

from __future__ import annotations

import re

# Floating-point operations that the tensor cores of one SM do in a cycle, of dense fp16 or bf16 matrices. Makers give
# a rate at the boost clock: NVIDIA's H100 whitepaper 989.4 TFLOP/s for 132 SMs at 1.83 GHz, which is 4096; an H200 has
# the same SMs. NVIDIA's A100 whitepaper 312 TFLOP/s for 108 SMs at 1.41 GHz, which is 2048.
FLOP_A_CYCLE = {"A100": 2048, "H100": 4096, "H200": 4096}


def flop_a_cycle(device: object) -> int | None:
    """What an SM's tensor cores do in a cycle, by the name of the device as its driver gives it; None if not known."""
    words = re.split(r"[^A-Za-z0-9]+", str(device))
    return next((rate for name, rate in FLOP_A_CYCLE.items() if name in words), None)
