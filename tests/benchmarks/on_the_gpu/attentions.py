"""What is measured on a device: generated functions and PyTorch's kernels, on the same tensors.

Every candidate is a call without arguments that puts its work on the current stream of PyTorch and
returns a tensor (b, h, n, d).  A kernel that the machine lacks is left out, with its reason.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

import symattn as sa
from tests.benchmarks.on_the_cpu.attentions import (
    CAP,
    SLOPE,
    WIDTH,
    Attention,
    DiffersError,
    exact,
    torch,
    written,
)

Candidate = Callable[[], Any]

TOLERANCES = {"bfloat16": 2e-2, "float16": 3e-3, "float32": 2e-5}
"""Of the largest entry; that of bfloat16 is two of its units of rounding."""


def tensors(b: int, h: int, n: int, d: int, dtype: str) -> list[Any]:
    """Queries, keys and values of standard normal entries on the device."""
    made = torch.Generator(device="cuda").manual_seed(0)
    shape = (b, h, n, d)
    wide = (torch.randn(shape, generator=made, device="cuda") for _ in range(3))
    return [x.to(getattr(torch, dtype)) for x in wide]


def ours(which: Attention, plan: str, given: Sequence[Any]) -> Candidate:
    """The function that symattn generates for CuPy, in the row layout."""
    inputs, formula, values = written(which, "row")
    function = sa.lambdify(inputs, formula, backend="cupy", plan=plan)
    return partial(function, *given, **values)


def sdpa(given: Sequence[Any], causal: bool) -> Iterator[tuple[str, Candidate]]:
    """Every kernel of PyTorch's own attention; one that cannot run raises when it is called."""
    attention = importlib.import_module("torch.nn.attention")
    function = torch.nn.functional.scaled_dot_product_attention
    for name in ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION"):
        backend = getattr(attention.SDPBackend, name)

        def run(backend: Any = backend) -> Any:
            with attention.sdpa_kernel(backend):
                return function(*given, is_causal=causal)

        yield f"SDPA {name.removesuffix('_ATTENTION').lower()}", run


def flex(which: Attention, given: Sequence[Any]) -> Candidate:
    """PyTorch's attention with a score of one's own, compiled for this attention alone."""
    library = importlib.import_module("torch.nn.attention.flex_attention")
    torch._dynamo.reset()  # after some compilations of one function the compiler gives up
    compiled = torch.compile(library.flex_attention)
    n, m = given[0].shape[-2], given[1].shape[-2]

    def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        if which.softcap:
            s = CAP * torch.tanh(s / CAP)
        return s - SLOPE * (i - j) if which.alibi else s

    def visible(b: Any, h: Any, i: Any, j: Any) -> Any:
        return (j <= i) & (i - j < WIDTH) if which.window else j <= i

    blocks = (
        library.create_block_mask(visible, None, None, n, m, device="cuda")
        if which.causal
        else None
    )
    modified = score if which.softcap or which.alibi else None
    return lambda: compiled(*given, score_mod=modified, block_mask=blocks)


def check(name: str, which: Attention, given: Sequence[Any], result: Any) -> float:
    """Return the largest error of some rows of a result, relative to the largest entry, or raise.

    Rows of the first and the last head are computed in float64 on the CPU, from inputs as they are.
    """
    b, h, n, _ = given[0].shape
    sampled = np.random.default_rng(1).integers(0, n, 24)
    i = np.unique(np.concatenate([np.arange(4), np.arange(n - 4, n), sampled]))
    worst = 0.0
    for head in {(0, 0), (b - 1, h - 1)}:
        arrays = [x[head].double().cpu().numpy() for x in given]
        true = exact(which, arrays, i)
        found = result[head][i.tolist()].double().cpu().numpy()
        worst = max(worst, float(np.abs(found - true).max() / np.abs(true).max()))
    dtype = str(given[0].dtype).removeprefix("torch.")
    if not worst <= TOLERANCES[dtype]:
        raise DiffersError(f"{name} ({which.name}, {n}, {dtype}) is {worst:.1e} off float64")
    return worst


def seen_pairs(which: Attention, n: int) -> float:
    """How many pairs of a query and a key count as work: half of them under a causal mask."""
    if which.window:
        return n * min(WIDTH, n)
    return n * n / 2 if which.causal else n * n
