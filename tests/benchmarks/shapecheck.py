"""What a run-time check costs: over the same function unchecked, beside jaxtyping with beartype.

Run as `python tests/benchmarks/shapecheck.py`.  All candidates are called in turn, round after
round, in one process; the overhead of a round is the time of a checked call less that of the
unchecked one, and what is printed is the median over the rounds.  It ends with status 1 if
something is over its aim.
"""

import statistics
import sys
import time
from collections.abc import Callable
from typing import Annotated, Any

import jaxtyping
import numpy as np
from beartype import beartype
from jaxtyping import Float

import symattn as sa

ROUNDS, CALLS = 200, 500
n, m, d_k, d_v, h = 5, 7, 4, 3, 2

PLAIN_AIM, SOLVING_AIM, OFF_AIM = 1.0, 3.0, 0.1  # µs a call
RATIO_AIM = 20.0  # jaxtyping's overhead over ours
DECORATION_AIM = 1.0  # ms


def arguments(*shapes: tuple[int, ...]) -> tuple[Any, ...]:
    """Arrays of these shapes."""
    random = np.random.default_rng(seed=0)
    return tuple(random.normal(size=shape) for shape in shapes)


def attend_annotated() -> Callable[..., Any]:
    """Three arguments and a result, each size a tag."""

    def attend(
        Q: Annotated[np.ndarray, "d_k n"],
        K: Annotated[np.ndarray, "d_k m"],
        V: Annotated[np.ndarray, "d_v m"],
    ) -> Annotated[np.ndarray, "d_v n"]:
        return result

    result = arguments((d_v, n))[0]
    return attend


def attend_jaxtyped() -> Callable[..., Any]:
    """The same, as jaxtyping writes it."""

    def attend(
        Q: Float[np.ndarray, "d_k n"],
        K: Float[np.ndarray, "d_k m"],
        V: Float[np.ndarray, "d_v m"],
    ) -> Float[np.ndarray, "d_v n"]:
        return result

    result = arguments((d_v, n))[0]
    return attend


def solving() -> Callable[..., Any]:
    """Sizes that follow only from several axes: h from h*d_k and d_k, n from 2*n."""

    def merge(
        W: Annotated[np.ndarray, "h*d_k 2*n"],
        K: Annotated[np.ndarray, "d_k m"],
    ) -> Annotated[np.ndarray, "h n m"]:
        return result

    result = arguments((h, n, m))[0]
    return merge


def seconds(function: Callable[..., Any], given: tuple[Any, ...]) -> float:
    """Seconds of one call."""
    calls = range(CALLS)
    start = time.perf_counter()
    for _ in calls:
        function(*given)
    return (time.perf_counter() - start) / CALLS


def overheads(
    unchecked: Callable[..., Any], checked: list[Callable[..., Any]], given: tuple[Any, ...]
) -> list[float]:
    """The median overhead of each candidate, in µs."""
    rounds: list[list[float]] = []
    for _ in range(ROUNDS):
        base = seconds(unchecked, given)
        rounds.append([1e6 * (seconds(function, given) - base) for function in checked])
    return [statistics.median(column) for column in zip(*rounds, strict=True)]


def decoration_ms() -> float:
    """The median time to decorate a function, after the first, each with text of its own."""
    times: list[float] = []
    for k in range(41):
        spec = f"Q: d_k{k} n{k}, K: d_k{k} m{k}, V: d_v{k} m{k} -> d_v{k} n{k}"
        start = time.perf_counter()
        sa.shapecheck(spec)(lambda Q, K, V: V)
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[1:])


def main() -> int:
    """Print each figure with its aim; 1 if one is missed."""
    peer = jaxtyping.jaxtyped(typechecker=beartype)
    given = arguments((d_k, n), (d_k, m), (d_v, m))
    plain, with_kinds, theirs = overheads(
        attend_annotated(),
        [
            sa.shapecheck(attend_annotated()),
            sa.shapecheck(attend_jaxtyped()),
            peer(attend_jaxtyped()),
        ],
        given,
    )
    solved = overheads(
        solving(), [sa.shapecheck(solving())], arguments((h * d_k, 2 * n), (d_k, m))
    )[0]
    checked = sa.shapecheck(attend_annotated())
    with sa.config(shapecheck=False):
        off = overheads(attend_annotated(), [checked], given)[0]
    rows = [
        ("three arguments and a result", plain, "µs", PLAIN_AIM),
        ("the same, annotated as jaxtyping does", with_kinds, "µs", PLAIN_AIM),
        ("jaxtyping with beartype", theirs, "µs", None),
        ("  ours over theirs, 1 to", theirs / plain, "", -RATIO_AIM),
        ("sizes to be solved for", solved, "µs", SOLVING_AIM),
        ("checks off in a block", off, "µs", OFF_AIM),
        ("decorating", decoration_ms(), "ms", DECORATION_AIM),
    ]
    missed = False
    for what, value, unit, aim in rows:
        over = aim is not None and (value > aim if aim > 0 else value < -aim)
        missed = missed or over
        told = "" if aim is None else f"(aim {'≤' if aim > 0 else '≥'} {abs(aim):g})"
        print(f"{what:40} {value:8.2f} {unit:3} {told} {'MISSED' if over else ''}".rstrip())
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
