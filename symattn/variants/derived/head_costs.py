"""What h heads cost: as much as one head of full size, but for the work of the softmax.

Counted in FLOPs: a product of m×k and k×n takes 2mkn, every other operation on a number 1, exp and
max too.  The formulas are compared with a count: multi-head attention, run on numbers that note
what is done to them.
"""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Limit, Sum

from symattn.nodes.sizes import Dim
from symattn.variants.derived.chains import Chain, Derivation, Rule, chain
from symattn.variants.derived.counting import flops_of_heads
from symattn.variants.derived.experiments import Experiment
from symattn.variants.derived.sums import counted, limits_computed
from symattn.variants.derived.values import Point
from symattn.variants.sources import VASWANI

_H, _N, _M, _D_K, _D = (Dim(name) for name in ("h", "n", "m", "d_k", "d_model"))
_I = sympy.Symbol("i", integer=True)
_ALL, _ONE = sympy.symbols("C_h C_1", positive=True)

PER_HEAD: dict[str, Any] = {
    "projections": 2 * _D_K * _D * _N + 2 * 2 * _D_K * _D * _M,  # of queries; of keys and values
    "scores": 2 * _M * _D_K * _N,
    "softmax": 6 * _N * _M,  # scale, max, difference, exp, sum, quotient
    "weighted sums": 2 * _D_K * _M * _N,
}
"""The FLOPs of one head, by step."""

_OUTPUT = 2 * _D * (_H * _D_K) * _N

# Heads, queries, keys, features of a head: pairwise different, and one head among them.
_SIZES = ((2, 3, 5, 4), (3, 4, 2, 5), (1, 2, 4, 3))


def _points() -> tuple[Point, ...]:
    """Return sizes, with what h heads and one head of full size took when they ran."""
    return tuple(
        Point(
            symbols={
                **{"h": h, "n": n, "m": m, "d_k": d_k, "d_model": h * d_k},
                "C_h": sum(flops_of_heads(h, n, m, d_k).values()),
                "C_1": sum(flops_of_heads(1, n, m, h * d_k).values()),
            }
        )
        for h, n, m, d_k in _SIZES
    )


def _full_size(expr: Any) -> Any:
    return sympy.expand(expr).xreplace({_D_K: _D / _H})


_EQUAL_HEADS = Rule("h equal terms", "all heads have the same sizes", counted)
_FEATURES = Rule("h d_k = d_model", "the heads share the features of the model", _full_size)


def _step(name: str, points: tuple[Point, ...]) -> Chain:
    cost = PER_HEAD[name]
    rules = [_EQUAL_HEADS, _FEATURES] if cost.has(_D_K) else [_EQUAL_HEADS]
    return chain(f"{name} of h heads", Sum(cost, (_I, 1, _H)), rules, points)


def _output(points: tuple[Point, ...]) -> Chain:
    return chain("the weight that mixes the heads", _OUTPUT, [_FEATURES], points)


def _more(total: Any, points: tuple[Point, ...]) -> Chain:
    return chain(
        "h heads less one head of full size, C_h − C_1",
        _ALL - _ONE,
        [_all_steps(total), Rule("common factor", "distributivity", sympy.factor)],
        points,
    )


def _share(total: Any, points: tuple[Point, ...]) -> Chain:
    return chain(
        "the share of that, (C_h − C_1) / C_1",
        (_ALL - _ONE) / _ONE,
        [_all_steps(total), Rule("common factors", "they cancel", sympy.factor)],
        points,
    )


def _long_sequences(share: Chain, points: tuple[Point, ...]) -> Chain:
    at_equal_lengths = share.result.xreplace({_M: _N})
    return chain(
        "the share for long sequences, m = n",
        Limit(at_equal_lengths, _N, sympy.oo, dir="-"),
        [Rule("limit", "a quotient of polynomials of one degree in n", _limit_of_quotient)],
        points,
    )


def _limit_of_quotient(expr: Any) -> Any:
    return sympy.factor(limits_computed(expr))


def _at_one_head(total: Any) -> Any:
    return total.xreplace({_H: sympy.S.One})


def _all_steps(total: Any) -> Rule:
    return Rule(
        "all steps together",
        "C_h is the sum of the counts above, C_1 the same with h = 1",
        lambda expr: expr.xreplace({_ALL: total, _ONE: _at_one_head(total)}),
    )


def counts(h: int = 4, n: int = 6, m: int = 5, d_k: int = 3) -> Experiment:
    """Run attention with h heads of size d_k, and with one of size h·d_k, and count operations.

    >>> found = counts(h=2, n=3, m=4, d_k=5)
    >>> found.rows[2]
    ('softmax', 72, 144, 72)

    A row is a step: the FLOPs of one head of full size, those of h heads, and the difference.  It
    is as derived if both are what the formulas say.  Raises `SizeError` for what is no positive
    integer.
    """
    every, one = flops_of_heads(h, n, m, d_k), flops_of_heads(1, n, m, h * d_k)
    shared = {_N: n, _M: m, _D: h * d_k}
    in_all, in_one = {**shared, _H: h, _D_K: d_k}, {**shared, _H: 1, _D_K: h * d_k}
    formulas = {**{name: _H * cost for name, cost in PER_HEAD.items()}, "output": _OUTPUT}
    rows = [(name, one[name], every[name], every[name] - one[name]) for name in formulas]
    as_derived = [
        one[name] == formula.subs(in_one) and every[name] == formula.subs(in_all)
        for name, formula in formulas.items()
    ]
    more = sum(every.values()) - sum(one.values())
    rows.append(("all", sum(one.values()), sum(every.values()), more))
    as_derived.append(more == 6 * (h - 1) * n * m)
    return Experiment(
        f"FLOPs of attention of n = {n} queries to m = {m} keys with d_model = {h * d_k}, counted",
        ("step", "one head", f"{h} heads", "more"),
        tuple(rows),
        tuple(as_derived),
    )


def cost_of_heads() -> Derivation:
    """Return the derivation of what h heads cost more than one."""
    points = _points()
    steps = [*(_step(name, points) for name in PER_HEAD), _output(points)]
    total = sympy.Add(*(part.result for part in steps))
    share = _share(total, points)
    return Derivation(
        name="cost_of_heads",
        title="h heads of size d_model / h cost about one head of size d_model",
        source=f"{VASWANI}, section 3.2.2",
        assumptions=(
            "n queries and m keys, all of d_model features; keys and values of a head have d_k",
            "d_model = h d_k; one head of full size is h = 1, with its output weight",
            "a product of m×k and k×n takes 2mkn FLOPs; any other operation 1, exp and max too",
            "softmax: scale, max, difference, exp, sum and quotient, 1 each a score",
        ),
        chains=(*steps, _more(total, points), share, _long_sequences(share, points)),
        conclusion="projections, scores, weighted sums and output cost the same for every h; only "
        "the softmax costs h times as much, and that adds less than 3 / (2 d_k) of C_1",
        run=counts,
    )
