"""Generated NumPy attention against PyTorch, the bare matrix products and naive NumPy, on the CPU.

    python tests/benchmarks/attention.py [--quick] [--case NAME …] [--json | --markdown [FILE …]]

One process; every round runs each candidate once, and the median of the rounds' ratios is shown
beside the bar that it should keep: float32, d = 64, processor time of one thread, or, for workers,
time on the clock.  A result that differs from float64 ends everything: nothing is reported then.
The exit status is 1 if a bar is missed, 2 if nothing could be reported.

Needs threadpoolctl, to hold BLAS at one thread and to tell which of its kernels runs.  Without
PyTorch its rows are left out.  `--markdown` with the files that `--json` wrote shows them as one
table, a column each.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import threadpoolctl

sys.path.insert(0, str(Path(__file__).parents[2]))  # what is measured is this checkout

from tests.benchmarks.on_the_cpu.attentions import (
    CAUSAL,
    FULL,
    TOLERANCE,
    Attention,
    DiffersError,
    check,
    flex,
    generated,
    naive,
    naive_column,
    products,
    sdpa,
    torch,
    turned,
)
from tests.benchmarks.on_the_cpu.rounds import in_a_fresh_process, interleaved, peak_bytes
from tests.benchmarks.on_the_cpu.table import COLUMNS, Row, as_line, as_markdown, ratio_row

D = 64
MIB = 2**20
SIZES = {(1, 1, 512): 41, (1, 8, 1024): 11, (1, 8, 4096): 5, (1, 1, 16384): 3}
QUICK_SIZES = {(1, 1, 512): 15, (1, 8, 1024): 7, (1, 8, 4096): 3}
PRODUCTS = "blocked products"
MOST_SCORES = 2**27  # that a plan with whole matrices is measured with


def arrays_of(b: int, h: int, n: int, m: int | None = None, kv: int | None = None) -> list[Any]:
    """Queries, keys and values of standard normal entries."""
    random = np.random.default_rng(0)
    shapes = ((b, h, n, D), (b, kv or h, m or n, D), (b, kv or h, m or n, D))
    return [random.standard_normal(shape, dtype=np.float32) for shape in shapes]


def full_kernel() -> bool:
    """Whether BLAS chose its kernel by itself."""
    return "OPENBLAS_CORETYPE" not in os.environ


def against_torch_and_products(quick: bool) -> Iterator[Row]:
    """Row and column layout and every plan; the bars are for what `plan="auto"` takes."""
    for (b, h, n), rounds in (QUICK_SIZES if quick else SIZES).items():
        arrays, size = arrays_of(b, h, n), f"{b},{h},{n}"
        columns = [turned(x) for x in arrays]
        for which in (FULL, CAUSAL):
            ours: dict[str, Callable[[], Any]] = {
                "auto": partial(generated(which, "row", "auto"), *arrays),
                "blocked": partial(generated(which, "row", "blocked"), *arrays),
            }
            if h * n * n <= MOST_SCORES:
                ours["direct"] = partial(generated(which, "row", "direct"), *arrays)
            auto_columns = partial(generated(which, "column", "auto"), *columns)
            theirs = {
                PRODUCTS: products(arrays, which.causal),
                PRODUCTS + COLUMNS: products(columns, which.causal, "column"),
            }
            results = {name: run() for name, run in ours.items()}
            results["auto" + COLUMNS] = auto_columns().swapaxes(-1, -2)
            if torch:
                theirs["SDPA"] = sdpa(arrays, which.causal)
                results["SDPA"] = theirs["SDPA"]()
            check(which, arrays, results)
            ours["auto" + COLUMNS] = auto_columns
            measured = interleaved({**ours, **theirs}, rounds)
            most = 1.45 if n >= 4096 else 1.65
            for suffix in ("", COLUMNS):
                yield ratio_row(which, size, measured, "auto" + suffix, PRODUCTS + suffix, bar=most)
            most = (0.75 if full_kernel() else 1.10) if n >= 1024 else None
            for name in ours if torch else ():
                bar = most if name.startswith("auto") else None
                yield ratio_row(which, size, measured, name, "SDPA", bar=bar)


def against_one_worker(quick: bool) -> Iterator[Row]:
    """How much faster two workers are; both cores are needed, so the quietest rounds count."""
    for b, h, n in ((1, 8, 4096),) if quick else ((1, 8, 4096), (1, 1, 16384)):
        arrays = arrays_of(b, h, n)
        for which in (FULL, CAUSAL):
            f = generated(which, "row", "auto")
            runs = {"1 worker": partial(f, *arrays, workers=1)}
            runs["2 workers"] = partial(f, *arrays, workers=2)
            if not np.array_equal(runs["1 worker"](), runs["2 workers"]()):
                raise DiffersError(f"two workers ({which.name}, {b},{h},{n}) is off one worker")
            check(which, arrays, {"2 workers": runs["2 workers"]()})
            clocked = interleaved(runs, 3 if quick else 9, time.perf_counter).quietest()
            least: dict[str, Any] = {"bar": 1.8, "at_least": True}
            yield ratio_row(which, f"{b},{h},{n}", clocked, "1 worker", "2 workers", **least)
            used = interleaved(runs, 2)  # what the second worker costs, on a busy machine too
            cost = ratio_row(which, f"{b},{h},{n}", used, "2 workers", "1 worker")
            yield replace(cost, over="1 worker, processors")


def against_flex(quick: bool) -> Iterator[Row]:
    """Scores and masks for which PyTorch compiles a kernel."""
    cases = {
        Attention(softcap=True): 0.80,
        Attention(softcap=True, causal=True): 0.80,
        Attention(alibi=True, causal=True): 0.80,
        Attention(window=True, causal=True): 0.88,
    }
    for n, rounds in ((1024, 7),) if quick else ((1024, 11), (4096, 5)):
        arrays = arrays_of(1, 8, n)
        for which, bar in cases.items():
            auto = partial(generated(which, "row", "auto"), *arrays)
            runs = {"auto": auto, "flex_attention": flex(which, arrays)}
            check(which, arrays, {name: run() for name, run in runs.items()}, 2 * TOLERANCE)
            measured = interleaved(runs, rounds)
            yield ratio_row(which, f"1,8,{n}", measured, "auto", "flex_attention", bar=bar)


def decoding(quick: bool) -> Iterator[Row]:
    """One query: the time of reading K and V."""
    arrays = arrays_of(1, 8, 1, m=4096)
    columns = [turned(x) for x in arrays]
    for name, layout, written, given in (
        ("auto", "row", naive, arrays),
        ("auto" + COLUMNS, "column", naive_column, columns),
    ):
        runs = {
            name: partial(generated(FULL, layout, "auto"), *given),
            "naive": partial(written, *given),
        }
        results = {key: run() for key, run in runs.items()}
        if layout == "column":
            results = {key: result.swapaxes(-1, -2) for key, result in results.items()}
        check(FULL, arrays, results)
        measured = interleaved(runs, 51 if quick else 201)
        yield ratio_row("decoding", "1,8,1 over 4096", measured, name, "naive", bar=1.05)


def large_scores(quick: bool) -> Iterator[Row]:
    """Scores of which no exponential exists without taking the maximum off."""
    arrays = arrays_of(1, 8, 1024)
    larger = [40 * arrays[0], *arrays[1:]]
    for which in (FULL, CAUSAL):
        f = generated(which, "row", "auto")
        runs = {"scores × 40": partial(f, *larger), "scores × 1": partial(f, *arrays)}
        # The scores themselves have this many more units of rounding in them.
        check(which, larger, {"scores × 40": runs["scores × 40"]()}, 40 * TOLERANCE)
        measured = interleaved(runs, 5 if quick else 11)
        yield ratio_row(which, "1,8,1024", measured, "scores × 40", "scores × 1")


def grouped_queries(quick: bool) -> Iterator[Row]:
    """Eight heads that share two heads of keys and values, which broadcast and are not repeated."""
    for n, rounds in ((1024, 7),) if quick else ((1024, 11), (4096, 5)):
        q, k, v = arrays_of(1, 8, n, kv=2)
        shared = [q.reshape(1, 2, 4, n, D), k[:, :, None], v[:, :, None]]
        auto = partial(generated(CAUSAL, "row", "auto"), *shared)
        check(CAUSAL, shared, {"auto": auto()})
        runs = {"auto": auto, "SDPA, enable_gqa": sdpa([q, k, v], causal=True, grouped=True)}
        measured = interleaved(runs, rounds)
        yield ratio_row("causal, 2 heads of keys", f"1,8,{n}", measured, "auto", "SDPA, enable_gqa")


def extra_memory(plan: str, workers: int) -> float:
    """The peak of NumPy's memory in the first call at 1×8×4096 causal, in MiB."""
    arrays = arrays_of(1, 8, 4096)
    f = generated(CAUSAL, "row", plan)
    if plan != "direct":
        f = partial(f, workers=workers)
    return peak_bytes(partial(f, *arrays)) / MIB


def memory(quick: bool) -> Iterator[Row]:
    """Peak memory, the output of 8 MiB included; at most 16 MiB more for each worker."""
    for plan, workers in (("auto", 1), ("auto", 2), ("direct", 1)):
        yield Row(
            case="peak memory",
            size="1,8,4096",
            ours=f"{plan}, {workers} worker{'s' * (workers > 1)}",
            over="",
            value=in_a_fresh_process(extra_memory, plan, workers),
            bar=None if plan == "direct" else 8 + 16 * workers,
            unit="MiB",
        )


CASES: dict[str, tuple[Callable[[bool], Iterator[Row]], bool]] = {
    "attention": (against_torch_and_products, False),
    "workers": (against_one_worker, False),
    "flex": (against_flex, True),
    "decoding": (decoding, False),
    "large": (large_scores, False),
    "grouped": (grouped_queries, True),
    "memory": (memory, False),
}
"""What can be asked for with `--case`, and whether it needs PyTorch."""


def machine() -> dict[str, Any]:
    """What the numbers depend on."""
    libraries = [x for x in threadpoolctl.threadpool_info() if x["user_api"] == "blas"]
    return {
        "blas": [f"{x['internal_api']} {x['version']} {x['architecture']}" for x in libraries],
        "settings": {k: v for k, v in os.environ.items() if k.startswith("OPENBLAS_")},
        "numpy": np.__version__,
        "torch": torch.__version__ if torch else None,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }


def main() -> int:
    """Measure, print, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer sizes and rounds")
    parser.add_argument("--case", action="append", choices=CASES, help="only this; repeatable")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print JSON")
    shape.add_argument("--markdown", nargs="*", type=Path, metavar="FILE", help="print Markdown")
    asked = parser.parse_args()
    if asked.markdown:
        print(as_markdown([json.loads(path.read_text("utf-8")) for path in asked.markdown]))
        return 0
    in_terminal = not asked.json and asked.markdown is None
    report: dict[str, Any] = {"machine": machine(), "rows": [], "left_out": []}
    if torch:
        torch.set_num_threads(1)
    if in_terminal:
        print("\n".join(f"{name}: {value}" for name, value in report["machine"].items()))
    missed = 0
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        for name in asked.case or CASES:
            measure, needs_torch = CASES[name]
            if needs_torch and not torch:
                report["left_out"].append(f"{name}: PyTorch is not installed")
                continue
            try:
                for row in measure(asked.quick):
                    report["rows"].append(asdict(row))
                    missed += row.missed
                    if in_terminal:
                        print(as_line(row), flush=True)
            except DiffersError as error:
                print(f"nothing is reported: {error}", file=sys.stderr)
                return 2
    if asked.json:
        print(json.dumps({**report, "missed": missed}, indent=1))
    elif asked.markdown is not None:
        print(as_markdown([report]))
    else:
        for line in report["left_out"]:
            print(f"left out: {line}")
        print(f"{missed} of {sum(r['bar'] is not None for r in report['rows'])} bars missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
