"""Generated attention on a CUDA device against PyTorch's kernels.

    python tests/benchmarks/gpu.py [--quick] [--case NAME …] [--json | --compile CAPABILITY]

One process; in every round each candidate has its turn, timed between events of the stream.  What
is shown is TFLOP/s from the median time, four operations for each query, key and entry that is
seen (under a causal mask half of them), and the median ratio of times over a peer beside the bar
that it should keep.  b, h, d = 2, 16, 128.  A result that differs from float64 ends everything:
nothing is reported then.  The exit status is 1 if a bar is missed, 2 if nothing could be reported.

Needs a CUDA device, CuPy, PyTorch built for CUDA, and Triton for the fused plan.  `--compile 90`
needs Triton alone: it compiles the kernels for compute capability 9.0, those of the catalogue too,
into the cache, and shows what they take.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # what is measured is this checkout

import symattn as sa
from symattn.codegen.gpu.ahead import compile_all, table
from tests.benchmarks.on_the_cpu.attentions import (
    CAUSAL,
    FULL,
    Attention,
    DiffersError,
    torch,
    written,
)
from tests.benchmarks.on_the_gpu.attentions import (
    Candidate,
    check,
    flex,
    ours,
    sdpa,
    seen_pairs,
    tensors,
)
from tests.benchmarks.on_the_gpu.events import interleaved

B, H, D = 2, 16, 128
MIB = 2**20
FUSED, FLEX = "fused", "flex_attention"
SCORES = {
    Attention(softcap=True): 0.95,
    Attention(softcap=True, causal=True): 0.95,
    Attention(alibi=True, causal=True): 0.95,
    Attention(window=True, causal=True): None,
}
"""Other scores and masks, each with the least speed over the compiled kernel of PyTorch."""


@dataclass(frozen=True)
class Row:
    """One number; with its bar, if there is one: at least, or, for mebibytes, at most."""

    case: str
    n: int
    dtype: str
    what: str
    value: float
    unit: str
    bar: float | None = None

    @property
    def missed(self) -> bool:
        """Whether the bar, if there is one, is not kept."""
        if self.bar is None:
            return False
        return self.value > self.bar if self.unit == "MiB" else self.value < self.bar

    @property
    def line(self) -> str:
        """The row of a table in a terminal."""
        sign = "≤" if self.unit == "MiB" else "≥"
        bar = "" if self.bar is None else f"{sign} {self.bar:g}{'  MISSED' * self.missed}"
        value = f"{self.value:8.2f} {self.unit:8}"
        return f"{self.case:18}{self.n:6} {self.dtype:9} {self.what:34}{value} {bar}".rstrip()


def runnable(
    which: Attention, given: list[Any], candidates: dict[str, Candidate], left_out: list[str]
) -> dict[str, Candidate]:
    """Return the candidates that run, each with a result that was checked."""
    found: dict[str, Candidate] = {}
    for name, run in candidates.items():
        try:
            result = run()
            torch.cuda.synchronize()
        except Exception as error:
            first = str(error).strip().partition("\n")[0]
            left_out.append(f"{name} ({which.name}, {given[0].shape[-2]}): {first[:150]}")
            continue
        check(name, which, given, result)
        found[name] = run
    return found


def rates(
    which: Attention, given: list[Any], seconds: dict[str, Any], bars: dict[str, float]
) -> Iterator[Row]:
    """The rows of TFLOP/s of every candidate."""
    n, dtype = given[0].shape[-2], str(given[0].dtype).removeprefix("torch.")
    work = 4 * B * H * D * seen_pairs(which, n)
    for name, times in seconds.items():
        value = work / float(np.median(times)) / 1e12
        yield Row(which.name, n, dtype, name, value, "TFLOP/s", bars.get(name))


def over(
    which: Attention, given: list[Any], seconds: dict[str, Any], peer: str, bar: float | None
) -> Iterator[Row]:
    """The row of the speed of the fused plan over a peer's, if both ran."""
    if FUSED in seconds and peer in seconds:
        n, dtype = given[0].shape[-2], str(given[0].dtype).removeprefix("torch.")
        value = float(np.median(seconds[peer] / seconds[FUSED]))
        yield Row(which.name, n, dtype, f"speed of {FUSED} over {peer}", value, "×", bar)


def plain(quick: bool, left_out: list[str]) -> Iterator[Row]:
    """Full and causal attention in bfloat16, beside every kernel that PyTorch has."""
    for n in (4096, 16384) if quick else (4096, 8192, 16384):
        given = tensors(B, H, n, D, "bfloat16")
        for which in (FULL, CAUSAL):
            candidates = {
                FUSED: ours(which, FUSED, given),
                FLEX: flex(which, given),
                **dict(sdpa(given, which.causal)),
            }
            runs = runnable(which, given, candidates, left_out)
            seconds = dict(interleaved(runs, 5 if quick else 9))
            yield from rates(which, given, seconds, {} if which.causal else {FUSED: 350})
            yield from over(which, given, seconds, FLEX, 0.9)
            for name in seconds:
                if name.startswith("SDPA"):
                    yield from over(which, given, seconds, name, None)


def scores(quick: bool, left_out: list[str]) -> Iterator[Row]:
    """Other score functions and masks, beside the compiled kernel of PyTorch."""
    for n in (8192,) if quick else (4096, 8192):
        given = tensors(B, H, n, D, "bfloat16")
        for which, bar in SCORES.items():
            candidates = {FUSED: ours(which, FUSED, given), FLEX: flex(which, given)}
            runs = runnable(which, given, candidates, left_out)
            seconds = dict(interleaved(runs, 5 if quick else 9))
            yield from rates(which, given, seconds, {})
            yield from over(which, given, seconds, FLEX, bar)


def blocked(quick: bool, left_out: list[str]) -> Iterator[Row]:
    """The plan that needs CuPy alone."""
    for dtype, n in (("float16", 16384),) if quick else (("float16", 16384), ("float32", 8192)):
        given = tensors(B, H, n, D, dtype)
        for which in (FULL, CAUSAL):
            plans = ("blocked", FUSED) if dtype == "float16" else ("blocked",)
            candidates = {plan: ours(which, plan, given) for plan in plans}
            runs = runnable(which, given, candidates, left_out)
            seconds = dict(interleaved(runs, 3))
            bars = {"blocked": 80.0} if dtype == "float16" and not which.causal else {}
            yield from rates(which, given, seconds, bars)


def memory(quick: bool, left_out: list[str]) -> Iterator[Row]:
    """What a call takes from the device beyond its result; all scores would be 16 GiB."""
    import cupy  # pyright: ignore[reportMissingImports]

    given = tensors(B, H, 16384, D, "float16")
    result = given[0].nbytes
    for plan in ("blocked", FUSED):
        run = ours(FULL, plan, given)
        try:
            run()
        except Exception as error:
            left_out.append(f"memory of {plan}: {str(error).partition(chr(10))[0][:150]}")
            continue
        torch.cuda.synchronize()
        pool = cupy.get_default_memory_pool()
        pool.free_all_blocks()
        before = pool.total_bytes()
        kept = run()
        torch.cuda.synchronize()
        more = (pool.total_bytes() - before - result) / MIB
        del kept
        yield Row(FULL.name, 16384, "float16", f"memory of {plan}, extra", more, "MiB", 512)


CASES = {"plain": plain, "scores": scores, "blocked": blocked, "memory": memory}


def compile_ahead(capability: int) -> int:
    """Compile the kernels that are measured and those of the catalogue; return the exit status.

    The status is 1 if a kernel for heads of two bytes spills registers.
    """
    shown = [written(which, "row")[1] for which in (FULL, CAUSAL, *SCORES)]
    kernels = compile_all(shown, capability, widths=(D,), dtypes=("bfloat16", "float16"))
    for layout, dtypes, widths in (
        ("row", ("bfloat16", "float16"), (64, D)),
        ("column", ("bfloat16",), (D,)),
    ):
        entries = [sa.formula(name, layout=layout) for name in sa.formulas()]
        kernels += compile_all(entries, capability, dtypes=dtypes, widths=widths)
    print(table(kernels))
    spilled = sum(kernel.spilled > 0 for kernel in kernels)
    print(f"{len(kernels)} kernels, {spilled} spill")
    return 1 if spilled else 0


def machine() -> dict[str, Any]:
    """What the numbers depend on."""
    import cupy  # pyright: ignore[reportMissingImports]

    triton = __import__("triton").__version__ if find_spec("triton") else None
    return {
        "device": torch.cuda.get_device_name(),
        "driver": cupy.cuda.runtime.driverGetVersion(),
        "cupy": cupy.__version__,
        "torch": torch.__version__,
        "triton": triton,
        "cudnn": torch.backends.cudnn.version(),
    }


def main() -> int:
    """Measure, print, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer sizes and rounds")
    parser.add_argument("--case", action="append", choices=CASES, help="only this; repeatable")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--compile", type=int, metavar="CAPABILITY", help="only compile, for 90 say"
    )
    asked = parser.parse_args()
    if asked.compile:
        try:
            return compile_ahead(asked.compile)
        except sa.SymattnError as error:
            print(error, file=sys.stderr)
            return 2
    if torch is None or not torch.cuda.is_available() or not find_spec("cupy"):
        print("needs a CUDA device, CuPy, and PyTorch built for CUDA", file=sys.stderr)
        return 2
    report: dict[str, Any] = {"machine": machine(), "rows": [], "left_out": []}
    began = time.perf_counter()
    missed = 0
    for name in asked.case or CASES:
        try:
            for row in CASES[name](asked.quick, report["left_out"]):
                report["rows"].append(asdict(row))
                missed += row.missed
                print(row.line, file=sys.stderr if asked.json else sys.stdout, flush=True)
        except DiffersError as error:
            print(f"nothing is reported: {error}", file=sys.stderr)
            return 2
    report["seconds"] = round(time.perf_counter() - began, 1)
    if asked.json:
        print(json.dumps({**report, "missed": missed}, indent=1))
    else:
        print("\n".join(f"left out: {line}" for line in report["left_out"]))
        print(f"{missed} bars missed; {report['seconds']} s")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
