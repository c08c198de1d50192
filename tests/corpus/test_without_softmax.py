"""The corpus: linear attention, and the lines that lead back from an output to its inputs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import symattn as sa
from tests.corpus.checks import computes, different, equal, printed
from tests.corpus.entries import built
from tests.loops import inner, softmax_of

d, d_k, d_v, n, m = sa.dims("d d_k d_v n m")
Q, K, V = sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v)
phi = sa.function("phi")


@built("F34")
def test_f34_a_product_is_associative_and_its_normaliser_is_another_matter() -> None:
    quadratic, linear = (phi(Q) @ phi(K).T) @ V, phi(Q) @ (phi(K).T @ V)
    assert printed(linear) == "φ(Q) ((φ(K))ᵀ V)"
    equal(quadratic, linear)
    # The left-hand side divides by φ(Q_i)ᵀ Σ_j φ(K_j); what is right of ⟺ does not.
    i, j = sa.index("i", n), sa.index("j", m)
    Q_i, K_j, V_j = sa.head(Q, i, axis=0).T, sa.head(K, j, axis=0).T, sa.head(V, j, axis=0).T
    numerator = phi(Q_i).T @ sa.sum_over(phi(K_j) @ V_j.T, j)
    denominator = phi(Q_i).T @ sa.sum_over(phi(K_j), j)
    V_i = sa.reciprocal(denominator) @ numerator
    printed(V_i)
    equal(sa.heads(numerator, i, axis=0), linear)
    normalised = sa.heads(V_i, i, axis=0)
    sums = phi(Q) @ (phi(K).T @ sa.ones(m, d_v))
    equal(normalised, sa.hadamard(linear, sa.reciprocal(sums)))
    assert not sa.prove(normalised, linear)


@built("F34")
def test_f34_with_a_function_that_is_known() -> None:
    weights = sa.exp(Q) @ sa.exp(K).T
    totals = weights @ sa.ones(m, d_v)
    linear = sa.hadamard(sa.exp(Q) @ (sa.exp(K).T @ V), sa.reciprocal(totals))
    different(linear, sa.exp(Q) @ (sa.exp(K).T @ V))
    different(linear, sa.attention(Q, K, V, "dot"))

    def by_hand(q: Any, k: Any, v: Any) -> Any:
        out = np.zeros((len(q), v.shape[1]))
        for i, query in enumerate(q):
            kernel = [inner([math.exp(x) for x in query], [math.exp(x) for x in y]) for y in k]
            for weight, value in zip(kernel, v, strict=True):
                out[i] += weight / sum(kernel) * value
        return out

    computes([Q, K, V], linear, by_hand, {"n": 5, "m": 7, "d_k": 4, "d_v": 3})


N, tau = sa.dim("N"), sa.scalar("tau", positive=True)
q, k, v, dO = (sa.matrix(name, N, d) for name in ("Q", "K", "V", "dO"))


def backward() -> dict[str, Any]:
    """The lines as printed, with P and O from the forward pass."""
    P = sa.softmax(tau * q @ k.T, axis=1)
    dP = dO @ v.T
    D = sa.hadamard(P, dP) @ sa.ones(N, 1)
    dS = sa.hadamard(P, dP - D @ sa.ones(1, N))
    lines = {"P": P, "O": P @ v, "dV": P.T @ dO, "dP": dP, "D": D, "dS": dS}
    return {**lines, "dQ": tau * dS @ k, "dK": tau * dS.T @ q}


@built("F47")
def test_f47_both_ways_to_write_the_sums_of_rows() -> None:
    lines = backward()
    for name in ("dV", "dS", "dQ", "dK"):
        printed(lines[name])
    equal(lines["D"], sa.hadamard(dO, lines["O"]) @ sa.ones(d, 1))
    # The rows of dS sum to zero: a shift of the scores of a query changes nothing.
    equal(lines["dS"] @ sa.ones(N, 1), 0 * sa.ones(N, 1))
    program = sa.Program(**{name: lines[name] for name in ("P", "dP", "D", "dS", "dQ")})
    equal(program.result, lines["dQ"])
    # Without D, or with D along the columns, it is another matrix.
    P, dP, D = lines["P"], lines["dP"], lines["D"]
    different(lines["dS"], sa.hadamard(P, dP))
    different(lines["dS"], sa.hadamard(P, dP - sa.ones(N, 1) @ D.T))


@built("F47")
def test_f47_in_columns() -> None:
    lines = backward()
    columns = {s: sa.matrix(s.label, d, N) for s in (q, k, v, dO)}
    q_c, k_c, v_c, dO_c = columns.values()
    P = sa.softmax(tau * k_c.T @ q_c, axis=0)
    dP = v_c.T @ dO_c
    dS = sa.hadamard(P, dP - sa.ones(N, 1) @ (sa.ones(1, N) @ sa.hadamard(P, dP)))
    twins = {symbol: column.T for symbol, column in columns.items()}
    for name, line in {"dV": dO_c @ P.T, "dQ": tau * k_c @ dS, "dK": tau * q_c @ dS.T}.items():
        equal(lines[name].xreplace(twins), line.T)


@built("F47")
def test_f47_against_finite_differences() -> None:
    lines, sizes = backward(), (4, 3)
    random = np.random.default_rng(5)
    arrays = {name: random.normal(size=sizes) for name in ("Q", "K", "V", "dO")}
    scale, step = 0.6, 1e-6

    def loss(Q: Any, K: Any, V: Any) -> float:
        """⟨dO, O⟩, whose gradients the lines are."""
        total = 0.0
        for i, query in enumerate(Q):
            weights = softmax_of([scale * inner(query, key) for key in K])
            total += inner(arrays["dO"][i], [inner(weights, column) for column in V.T])
        return total

    symbols = {"Q": q, "K": k, "V": v}
    for name in symbols:
        line = lines[f"d{name}"]
        inputs = line.inputs()
        found = sa.lambdify(inputs, line)(*(arrays[s.label] for s in inputs), tau=scale)
        expected = np.zeros(sizes)
        for at in np.ndindex(*sizes):
            ends = []
            for sign in (1, -1):
                moved = {key: arrays[key].copy() for key in symbols}
                moved[name][at] += sign * step
                ends.append(loss(**moved))
            expected[at] = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)
