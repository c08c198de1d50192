"""Faults that are found in public attention code, as formulas.

Each runs where sizes agree by coincidence, or always.  Where the sizes are what their tags say, a
fault of shape is refused; where two happen to be equal, numbers tell it from what was meant.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import symattn as sa
from tests.corpus.by_hand import attended_rows, scaled
from tests.corpus.checks import computes, different, equal, refusal

d, d_k, d_v, d_in, d_out, n, m, h = sa.dims("d d_k d_v d_in d_out n m h")
i = sa.index("i", h)


def operands(queries: Any, keys: Any, features: Any, values: Any) -> tuple[Any, Any, Any]:
    """Q, K and V in row layout."""
    return (
        sa.matrix("Q", queries, features),
        sa.matrix("K", keys, features),
        sa.matrix("V", keys, values),
    )


Q, K, V = operands(n, m, d_k, d_v)
S = Q @ K.T / sa.sqrt(d_k)
MEANT = sa.attention(Q, K, V)


def test_what_is_meant_is_the_loops() -> None:
    sizes = {"n": 5, "m": 7, "d_k": 4, "d_v": 3}
    computes([Q, K, V], MEANT, lambda q, k, v: attended_rows(q, k, v, scaled), sizes)


def test_softmax_axis_over_the_queries() -> None:
    different(sa.softmax(S, over=n) @ V, MEANT)
    # In an array (i, j, h) the axis of the queries comes first, whatever the heads.
    q, k = sa.family("q", h, n, d_k), sa.family("k", h, m, d_k)
    a = q[i] @ k[i].T
    different(sa.softmax(a, axis=0) @ V, sa.softmax(a, axis=1) @ V)


def test_scale_by_the_width_of_the_model() -> None:
    """With h = 1 it is right, so that a test with one head says nothing."""
    wide = sa.softmax(Q @ K.T / sa.sqrt(h * d_k), over=m) @ V
    different(wide, MEANT)
    equal(wide.subs({h: 1}), MEANT)


def test_scale_that_is_missing() -> None:
    plain = sa.softmax(Q @ K.T, over=m) @ V
    different(plain, MEANT)
    equal(plain, sa.formula("dot_product", layout="row").expr)
    equal(plain.subs({d_k: 1}), MEANT.subs({d_k: 1}))


def test_heads_by_a_reshape_alone() -> None:
    """(t, h·k) reshaped to (h, t, k), in place of (t, h, k) with two axes swapped."""
    X = sa.matrix("X", n, h * d_k)
    torn = sa.head(sa.reshape(X, h * n, d_k), i, axis=0)
    different(torn, sa.head(X, i, axis=1))
    found = sa.lambdify([X], sa.heads(torn, i, axis=0))(np.arange(30.0).reshape(5, 6), h=2)
    assert found.reshape(2, 5, 3).tolist() == np.arange(30.0).reshape(2, 5, 3).tolist()


def test_mask_the_wrong_way_round() -> None:
    """``where(mask, -inf, s)`` of a mask whose True means "may attend"."""
    inverted = sa.attention(Q, K, V, mask=~sa.keep())
    different(inverted, sa.attention(Q, K, V, mask=sa.keep()))
    zero, values = np.zeros((2, 1)), np.array([[1.0], [2.0]])
    keep = np.array([[True, False]])
    assert sa.lambdify([Q, K, V], inverted)(zero[:1], zero, values, keep=keep) == 2.0


def untransposed_weight(outer: Any, inner: Any) -> Any:
    """x W with W stored (d_out, d_in)."""
    return sa.matrix("X", n, inner) @ sa.matrix("W", outer, inner)


def values_for_keys(values: Any, features: Any) -> Any:
    """softmax(q vᵀ / √d) v: works while d_k = d_v."""
    q, _, v = operands(n, m, features, values)
    return sa.softmax(q @ v.T / sa.sqrt(features), axis=1) @ v


def transposed_weights(queries: Any, keys: Any) -> Any:
    """Aᵀ V, where A is (n, m)."""
    q, k, v = operands(queries, keys, d_k, d_v)
    return sa.softmax(q @ k.T / sa.sqrt(d_k), axis=1).T @ v


def untransposed_keys(keys: Any, features: Any) -> Any:
    """softmax(Q K) V: passes while m = d_k."""
    q, k, v = operands(n, keys, features, d_v)
    return sa.softmax(q @ k / sa.sqrt(features), axis=1) @ v


Fault = Callable[[Any, Any], Any]

COINCIDENCES: dict[str, tuple[Fault, tuple[Any, Any], str, Fault]] = {
    "weight stored (d_out, d_in)": (
        untransposed_weight,
        (d_out, d_in),
        "the columns of X are d_in, but the rows of W are d_out",
        lambda outer, inner: sa.matrix("X", n, inner) @ sa.matrix("W", outer, inner).T,
    ),
    "values for keys": (
        values_for_keys,
        (d_v, d_k),
        "the columns of Q are d_k, but the rows of V.T are d_v",
        lambda values, features: sa.attention(*operands(n, m, features, values), layout="row"),
    ),
    "weights transposed": (
        transposed_weights,
        (n, m),
        "are n, but the rows of V are m",
        lambda queries, keys: sa.attention(*operands(queries, keys, d_k, d_v), layout="row"),
    ),
    "keys not transposed": (
        untransposed_keys,
        (m, d_k),
        "the columns of Q are d_k, but the rows of K are m",
        lambda keys, features: sa.attention(*operands(n, keys, features, d_v), layout="row"),
    ),
}


@pytest.mark.parametrize("fault", COINCIDENCES)
def test_a_coincidence_is_refused_and_where_sizes_agree_refuted(fault: str) -> None:
    build, (one, other), clash, meant = COINCIDENCES[fault]
    refused = refusal(lambda: build(one, other))
    assert clash in refused.clash
    assert refused.fix
    for both in (one, other):
        different(build(both, both), meant(both, both))
    # A relation that is declared makes the sizes agree too, and the proof carries it along.
    with sa.assuming(f"{one} = {other}"):
        different(build(one, other), meant(one, other))


def test_one_letter_for_two_axes_reads_a_diagonal() -> None:
    """einsum("thd,btd->bht", q, kv): the t of the queries is the t of the keys."""
    t = sa.index("t", n)
    keys = sa.matrix("K", n, d_k)
    score = sa.heads(sa.head(Q, t, axis=0) @ sa.head(keys, t, axis=0).T, t, axis=0)
    equal(score, sa.hadamard(sa.identity(n), Q @ keys.T) @ sa.ones(n, 1))
    # With m keys there is none at t, and a score for each query is no matrix of scores.
    assert refusal(lambda: sa.head(K, t, axis=0), sa.HeadsError).size == "m"
    assert (
        "are 1, but those of the right side are n"
        in refusal(lambda: sa.prove(score, Q @ keys.T)).clash
    )


# The same faults in code that runs: `A.T @ V` where A is (n, m), and K that is not transposed.
# NumPy and PyTorch refuse to multiply what does not fit, but know no names; where the product
# happens to fit, what comes out has a shape that the result, or `expect`, does not.

ROWS = "Q: n d_k, K: m d_k, V: m d_v -> n d_v"
DIFFERENT = [(5, 7, 4, 3), (2, 3, 5, 4), (7, 5, 3, 4), (1, 2, 3, 4), (4, 1, 2, 3), (3, 8, 6, 2)]


def in_numpy(*sizes: int) -> tuple[Any, ...]:
    """Q, K and V in row layout, and the softmax of the rows."""
    n, m, d_k, d_v = sizes
    random = np.random.default_rng(seed=17)

    def softmax(scores: Any) -> Any:
        e = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    arrays = (random.normal(size=shape) for shape in ((n, d_k), (m, d_k), (m, d_v)))
    return *arrays, softmax


def in_pytorch(*sizes: int) -> tuple[Any, ...]:
    """The same of tensors."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    *arrays, _ = in_numpy(*sizes)
    return *(torch.tensor(array) for array in arrays), partial(torch.softmax, dim=-1)


LIBRARIES = [in_numpy, in_pytorch]


def code(softmax: Any, fault: str = "", *, looks: bool = False) -> Callable[..., Any]:
    """Attention as code, checked: without a fault, or with one; `looks` has an `expect` inside."""

    @sa.shapecheck(ROWS)
    def attend(Q: Any, K: Any, V: Any) -> Any:
        S = Q @ (K if fault == "keys not transposed" else K.T) / Q.shape[-1] ** 0.5
        A = softmax(sa.expect(S, "n m") if looks else S)
        if fault == "weights transposed":
            return (sa.expect(A.T, "n m") if looks else A.T) @ V
        return A @ V

    return attend


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("looks", [False, True])
def test_code_without_a_fault_passes(library: Callable[..., Any], looks: bool) -> None:
    for sizes in [*DIFFERENT, (5, 5, 4, 3), (5, 4, 4, 3), (6, 6, 6, 6)]:
        Q, K, V, softmax = library(*sizes)
        found = code(softmax, looks=looks)(Q, K, V)
        q, k, v = (np.asarray(array) for array in (Q, K, V))
        np.testing.assert_allclose(np.asarray(found), attended_rows(q, k, v, scaled))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("sizes", DIFFERENT)
@pytest.mark.parametrize("fault", ["weights transposed", "keys not transposed"])
def test_code_with_a_fault_is_stopped_where_sizes_differ(
    fault: str, sizes: tuple[int, ...], library: Callable[..., Any]
) -> None:
    """The library stops it, and its exception leaves with the sizes of the call."""
    Q, K, V, softmax = library(*sizes)
    with pytest.raises((ValueError, RuntimeError)) as caught:
        code(softmax, fault)(Q, K, V)
    assert not isinstance(caught.value, sa.SymattnError)
    (note,) = caught.value.__notes__
    n_, m_, k_, v_ = sizes
    for bound in (f"n = {n_} (Q)", f"m = {m_} (K)", f"d_k = {k_} (Q)", f"d_v = {v_} (V)"):
        assert bound in note


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("sizes", DIFFERENT)
def test_transposed_weights_that_are_expected_are_ours(
    sizes: tuple[int, ...], library: Callable[..., Any]
) -> None:
    Q, K, V, softmax = library(*sizes)
    with pytest.raises(sa.ShapeCheckError) as caught:
        code(softmax, "weights transposed", looks=True)(Q, K, V)
    assert f"its shape is ({sizes[1]}, {sizes[0]}), but n m is" in caught.value.problem


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(("n_", "square", "v_"), [(5, 4, 3), (2, 6, 7), (7, 3, 5)])
def test_keys_not_transposed_are_not_seen_where_they_are_square(
    n_: int, square: int, v_: int, library: Callable[..., Any]
) -> None:
    """With m = d_k no shape is wrong, so that no check can see it: only the numbers are."""
    Q, K, V, softmax = library(n_, square, square, v_)
    wrong = code(softmax, "keys not transposed", looks=True)(Q, K, V)
    assert wrong.shape == (n_, v_)
    assert not np.allclose(wrong, code(softmax)(Q, K, V))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(("tokens", "k_", "v_"), [(5, 4, 3), (2, 6, 7), (7, 3, 5)])
def test_transposed_weights_are_not_seen_where_they_are_square(
    tokens: int, k_: int, v_: int, library: Callable[..., Any]
) -> None:
    """With n = m no shape is wrong, so that no check can see it: only the numbers are."""
    Q, K, V, softmax = library(tokens, tokens, k_, v_)
    wrong = code(softmax, "weights transposed", looks=True)(Q, K, V)
    assert wrong.shape == (tokens, v_)
    assert not np.allclose(wrong, code(softmax)(Q, K, V))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("sizes", DIFFERENT)
def test_a_product_that_fits_gives_a_result_that_does_not(
    sizes: tuple[int, ...], library: Callable[..., Any]
) -> None:
    """Parts of attention, where both faults run: what they give back is of a wrong shape."""
    n_, m_, k_, _ = sizes
    Q, K, V, softmax = library(*sizes)

    @sa.shapecheck("Q: n d_k, K: m d_k -> n m")
    def weights(Q: Any, K: Any, transpose: bool) -> Any:
        A = softmax(Q @ K.T)
        return A.T if transpose else A

    @sa.shapecheck("A: n m, G: n d_v -> m d_v")  # the gradient of V: here Aᵀ is right
    def gradient(A: Any, G: Any) -> Any:
        return A.T @ G

    @sa.shapecheck("K: m d_k, W: d_k d_k -> d_k m")
    def keys(K: Any, W: Any, transpose: bool) -> Any:
        return (K @ W).T if transpose else K @ W

    A = weights(Q, K, False)
    assert gradient(A, A @ V).shape == V.shape
    assert keys(K, K.T @ K, True).shape == (k_, m_)
    for call, got, wanted in (
        (lambda: weights(Q, K, True), (m_, n_), "n m"),
        (lambda: keys(K, K.T @ K, False), (m_, k_), "d_k m"),
    ):
        with pytest.raises(sa.ShapeCheckError) as caught:
            call()
        assert caught.value.culprits == ("the result",)
        assert f"the result has shape {got}, but {wanted} is" in caught.value.problem
    with pytest.raises(sa.ShapeCheckError) as caught:
        gradient(A.T, A @ V)  # the fault in a call: A is an argument
    assert "A" in caught.value.culprits
