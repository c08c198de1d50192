"""How long the named claims take: each proved or refuted, and replayed; then all together.

Prints the least of several runs of each (the machine may be busy), with what is aimed at:

    python tests/benchmarks/theorems.py [--json]
"""

from __future__ import annotations

import json
import sys
import time

import symattn as sa

RUNS = 3


def run_time(name: str) -> float:
    """Return the milliseconds in which a claim is built, proved or refuted, and replayed."""
    claim = sa.theorem(name)
    start = time.perf_counter()
    claim.__dict__.pop("equations", None)  # they are kept once they are built
    outcome = claim.prove()
    assert outcome.as_expected
    assert outcome.check()
    return 1000 * (time.perf_counter() - start)


def main() -> None:
    """Measure, and print a table or JSON."""
    names = (*sa.theorems(), *sa.false_claims())
    rows = {name: (min(run_time(name) for _ in range(RUNS)), 1_000.0) for name in names}
    total = sum(ms for ms, _ in rows.values())
    rows[f"all {len(names)} claims"] = (total, 10_000.0)
    if "--json" in sys.argv:
        print(json.dumps({row: {"ms": ms, "aim_ms": aim} for row, (ms, aim) in rows.items()}))
        return
    for row, (ms, aim) in rows.items():
        print(f"{row:<52} {ms:8.1f} ms   (aim: under {aim:.0f})")


if __name__ == "__main__":
    main()
