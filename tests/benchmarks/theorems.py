"""How long the named claims take: each proved or refuted, and replayed; then all together.

Prints the first run of each, in which its formulas are built as well, and the least of several
more, with what is aimed at; time that other processes take is left out.  Exits with status 1 if a
first run, or all of them together, take longer:

    python tests/benchmarks/theorems.py [--json]
"""

from __future__ import annotations

import json
import sys
import time
from typing import NamedTuple

import symattn as sa
from symattn.variants.catalogue import _built

RUNS = 3


class Row(NamedTuple):
    """Milliseconds of the first run, of the fastest of those after it, and what is aimed at."""

    first_ms: float
    least_ms: float
    aim_ms: float


def run_time(name: str) -> float:
    """Return the milliseconds of building, proving or refuting, and replaying a claim."""
    claim = sa.theorem(name)
    # Equations and the formulas in them are kept once they are built.
    claim.__dict__.pop("equations", None)
    _built.cache_clear()
    start = time.process_time()
    outcome = claim.prove()
    assert outcome.as_expected
    assert outcome.check()
    return 1000 * (time.process_time() - start)


def measured() -> dict[str, Row]:
    """Return a row for each claim, and one for all of them."""
    names = (*sa.theorems(), *sa.false_claims())
    first = {name: run_time(name) for name in names}
    least = {name: min(run_time(name) for _ in range(RUNS)) for name in names}
    rows = {name: Row(first[name], least[name], 1_000.0) for name in names}
    rows[f"all {len(names)} claims"] = Row(sum(first.values()), sum(least.values()), 10_000.0)
    return rows


def main() -> None:
    """Measure, print a table or JSON, and fail where an aim is missed."""
    rows = measured()
    if "--json" in sys.argv:
        print(json.dumps({name: row._asdict() for name, row in rows.items()}))
    else:
        for name, row in rows.items():
            print(
                f"{name:<52} first {row.first_ms:8.1f} ms   least {row.least_ms:8.1f} ms   "
                f"(aim: under {row.aim_ms:.0f})"
            )
    sys.exit(any(row.first_ms >= row.aim_ms for row in rows.values()))


if __name__ == "__main__":
    main()
