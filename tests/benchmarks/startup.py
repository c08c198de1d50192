"""How long a person waits: for the import, for a translation with its proof, for `symattn show`.

Prints the least of several runs of each (the machine may be busy), with what is aimed at:

    python tests/benchmarks/startup.py [--json]
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable

RUNS = 20

# Timed inside a fresh interpreter, so that its own start does not count.
IMPORT = """
import sys, time
start = time.perf_counter()
import symattn
print(time.perf_counter() - start)
assert "sympy" not in sys.modules and "numpy" not in sys.modules
"""


def least(measure: Callable[[], float], runs: int = RUNS) -> float:
    """Return the least of several measurements, in milliseconds."""
    return 1000 * min(measure() for _ in range(runs))


def import_time() -> float:
    """Return the seconds that `import symattn` takes in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def show_time() -> float:
    """Return the seconds of `symattn show scaled_dot_product`, the interpreter's start included."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "symattn", "show", "scaled_dot_product"]
    subprocess.run(command, capture_output=True, check=True)
    return time.perf_counter() - start


def translation_time(name: str) -> Callable[[], float]:
    """Return a measurement of translating a formula, proving that, and replaying the proof."""
    import symattn as sa

    formula = sa.formula(name)

    def measure() -> float:
        start = time.perf_counter()
        proof = sa.translate(formula, to="row").proof
        assert proof
        assert proof.check()
        return time.perf_counter() - start

    return measure


def main() -> None:
    """Measure, and print a table or JSON."""
    import symattn as sa

    rows = {"import symattn": (least(import_time), 60.0)}
    for name in sa.formulas():
        rows[f"translate {name}, proved and replayed"] = (least(translation_time(name)), 100.0)
    rows["symattn show scaled_dot_product"] = (least(show_time, 5), 1500.0)
    if "--json" in sys.argv:
        print(json.dumps({row: {"ms": ms, "aim_ms": aim} for row, (ms, aim) in rows.items()}))
        return
    for row, (ms, aim) in rows.items():
        print(f"{row:<52} {ms:8.1f} ms   (aim: under {aim:.0f})")


if __name__ == "__main__":
    main()
