"""How often the findings are right, on simulated kernels whose faults are known.

    python benchmarks/findings.py --first 1000000 --cases 300

Each rule has so many cases, of kernels with its fault in any strength and without. Every rule is judged on all cases:
one that speaks must be true there, and one that is true must speak. A win between 0.6 and 1.3 times the least one is
not judged. A finding's win is an upper bound: the last columns say how many findings were held against what the same
kernel wins without the fault, in which part of them that was more, by over half a percent of the span, and by how much
at most. See `tests/trace/known_truth.py` for what is simulated.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "trace"))

from known_truth import RULES, case, real_win

# A bound that is exceeded by less is not: the simulated clocks' and CTAs' whole numbers make as much.
EXCEEDED = 0.005


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--first", type=int, default=1_000_000, help="the first seed")
    parser.add_argument("--cases", type=int, default=300, help="cases a rule")
    parser.add_argument("--verbose", action="store_true", help="name the cases that went wrong")
    options = parser.parse_args()
    hits: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    false: Counter[str] = Counter()
    silent: Counter[str] = Counter()
    beyond: dict[str, list[float]] = {name: [] for name in RULES}  # real win less the bound
    first_is_true = single = 0
    for rule in RULES:
        for seed in range(options.first, options.first + options.cases):
            made = case(rule, seed)
            findings = made.timeline.findings()
            found = [finding.rule for finding in findings]
            for finding in findings:
                win = real_win(made.kernel, made.ran, finding.rule) if finding.rule in made.there else None
                if win is not None:
                    beyond[finding.rule].append(win - finding.win)
                    if options.verbose and win > finding.win + EXCEEDED:
                        print(f"{rule} {seed}: {finding.rule} says {finding.win:.1%}, but {win:.1%} are won")
            for name in RULES:
                if name in made.there:
                    (hits if name in found else missed)[name] += 1
                elif name in made.not_there:
                    (false if name in found else silent)[name] += 1
                else:
                    continue
                if options.verbose and (name in found) != (name in made.there):
                    print(f"{rule} {seed}: {'false' if name in found else 'missed'} {name}; found {found}")
            if rule in made.there and len(made.there) == 1:
                single += 1
                first_is_true += found[:1] == [rule]
    print(f"{options.cases} cases a rule, seeds from {options.first}")
    print(f"{'rule':24}{'true':>6}{'false':>8}{'precision':>11}{'recall':>9}{'held':>7}{'exceeded':>10}{'by':>8}")
    for name in RULES:
        precision = hits[name] / max(hits[name] + false[name], 1)
        recall = hits[name] / max(hits[name] + missed[name], 1)
        line = f"{name:24}{hits[name] + missed[name]:6}{false[name] + silent[name]:8}{precision:11.3f}{recall:9.3f}"
        if beyond[name]:
            exceeded = sum(one > EXCEEDED for one in beyond[name]) / len(beyond[name])
            line += f"{len(beyond[name]):7}{exceeded:10.3f}{max(0.0, *beyond[name]):8.1%}"
        print(line)
    print(f"of {single} cases with one fault, it is the first finding in {first_is_true / max(single, 1):.3f}")


if __name__ == "__main__":
    main()
