"""Several heads: what is proved of them for every number of heads, and the faults that are not."""

import time
from typing import Any

import pytest

import symattn as sa
from symattn.nodes.core import Node

h, g, r, d_k, d_v, d, n, m = sa.dims("h g r d_k d_v d n m")
i, k, a, b = sa.index("i", h), sa.index("k", h), sa.index("a", g), sa.index("b", r)
F, S = sa.family("F", h, d_v, n), sa.family("S", h, n, n)
X, U = sa.matrix("X", d, n), sa.matrix("U", h * d_v, n)


def verdict(left: Any, right: Any) -> str:
    """The verdict of a proof that replays."""
    proof = sa.prove(left, right)
    if proof.verdict == "proved":
        assert proof.check()
    return proof.verdict


# Concat and W^O.


def head_of(layout: str) -> tuple[Node, Node, Node]:
    """Head i of self-attention, all heads stacked, and W^O."""
    if layout == "column":
        x = sa.matrix("X", d, n)
        q, key, v = (
            sa.family(f"W^{name}", h, size, d)[i] @ x
            for name, size in zip("QKV", (d_k, d_k, d_v), strict=True)
        )
        one = v @ sa.softmax(key.T @ q / sa.sqrt(d_k), axis=0)
        return one, sa.heads(one, i, axis=0), sa.matrix("W^O", d, h * d_v)
    x = sa.matrix("X", n, d)
    q, key, v = (
        x @ sa.family(f"W^{name}", h, d, size)[i]
        for name, size in zip("QKV", (d_k, d_k, d_v), strict=True)
    )
    one = sa.softmax(q @ key.T / sa.sqrt(d_k), axis=1) @ v
    return one, sa.heads(one, i, axis=1), sa.matrix("W^O", h * d_v, d)


def test_a_product_with_stacked_heads_is_a_sum_over_heads() -> None:
    one, stacked, W = head_of("column")
    proof = sa.prove(W @ stacked, sa.sum_over(sa.head(W, i, axis=1) @ one, i))
    assert [step.law for step in proof.steps] == ["product with stacked heads"]
    assert proof.check()
    one, stacked, W = head_of("row")
    proof = sa.prove(stacked @ W, sa.sum_over(one @ sa.head(W, i, axis=0), i))
    assert [step.law for step in proof.steps] == ["product with stacked heads"]
    assert proof.check()
    assert not proof.conditions


def test_mixing_with_the_blocks_of_the_other_axis_is_refuted() -> None:
    W = sa.matrix("W", h * n, h * n)
    stacked = sa.heads(S[i], i, axis=0)
    assert verdict(W @ stacked, sa.sum_over(sa.head(W, i, axis=1) @ S[i], i)) == "proved"
    wrong = sa.sum_over(sa.head(W, i, axis=0).T @ S[i], i)
    assert verdict(W @ stacked, wrong) == "refuted"


def test_features_before_heads_is_the_head_split_fault() -> None:
    """Concat runs over (heads, features); over (features, heads) the same rows stand elsewhere."""
    c = sa.index("c", d_v)
    right = sa.heads(F[i], i, axis=0)
    wrong = sa.heads(sa.heads(sa.head(F[i], c, axis=0), i, axis=0), c, axis=0)
    same = sa.heads(sa.heads(sa.head(F[i], c, axis=0), c, axis=0), i, axis=0)
    assert verdict(right, same) == "proved"
    proof = sa.prove(right, wrong)
    assert proof.verdict == "refuted"
    assert proof.sizes["h"] != proof.sizes["d_v"]


def test_a_reshape_alone_does_not_split_heads() -> None:
    x = sa.matrix("X", n, h * d_v)
    heads = sa.heads(sa.head(x, i, axis=1), i, axis=0)
    assert verdict(sa.reshape(x, h * n, d_v), heads) == "refuted"
    scores = sa.softmax(sa.head(x, i, axis=1) @ sa.head(x, i, axis=1).T, axis=1)
    torn = sa.head(sa.reshape(x, h * n, d_v), i, axis=0)
    wrong = sa.softmax(torn @ torn.T, axis=1)
    assert verdict(scores, wrong) == "refuted"
    # With tokens as columns the rows of a head lie together, and a reshape does split them.
    assert (
        verdict(
            sa.head(sa.reshape(U, h, d_v * n), i, axis=0),
            sa.reshape(sa.head(U, i, axis=0), 1, d_v * n),
        )
        == "proved"
    )


# Packed and one by one.


def packed_as_heads(layout: str, *, bias: bool) -> tuple[Node, Node]:
    """The packed formula whose weights are stacked families, and the formula of those families."""
    f = sa.formula("packed_multi_head", layout, bias=bias)
    d_model = sa.dim("d_model")
    axis = 0 if layout == "column" else 1
    given: dict[str, Any] = {x.name: x for x in f.inputs}
    x, w_o = given["X"], given["W^O"]
    made: dict[str, Node] = {}
    stacked: dict[Any, Node] = {}
    for name in "QKV":
        size = (d_k, d_model) if axis == 0 else (d_model, d_k)
        W = sa.family(f"w^{name}", h, *size)[i]
        made[name] = W @ x if axis == 0 else x @ W
        stacked[given[f"W^{name}"]] = sa.heads(W, i, axis=axis)
        if bias:
            one = sa.family(f"c^{name}", h, d_k, 1)[i]
            made[name] += one @ sa.ones(1, n) if axis == 0 else sa.ones(n, 1) @ one.T
            stacked[given[f"b^{name}"]] = sa.heads(one, i, axis=0)
    if axis == 0:
        one = made["V"] @ sa.softmax(made["K"].T @ made["Q"] / sa.sqrt(d_k), axis=0)
    else:
        one = sa.softmax(made["Q"] @ made["K"].T / sa.sqrt(d_k), axis=1) @ made["V"]
    with sa.assuming("d_model = h*d_k"):
        whole = sa.heads(one, i, axis=axis)
        result = w_o @ whole if axis == 0 else whole @ w_o
        if bias:
            o = given["b^O"]
            result += o @ sa.ones(1, n) if axis == 0 else sa.ones(n, 1) @ o.T
    return f.expr.xreplace(stacked), result


@pytest.mark.parametrize("layout", ["column", "row"])
@pytest.mark.parametrize("bias", [True, False])
def test_packed_is_one_by_one(layout: str, bias: bool) -> None:
    packed, one_by_one = packed_as_heads(layout, bias=bias)
    proof = sa.prove(packed, one_by_one)
    assert proof.verdict == "proved"
    assert proof.check()
    assert packed.given.text() == "d_model = h*d_k"


def test_packed_with_heads_in_another_order_is_refuted() -> None:
    f = sa.formula("packed_multi_head", "row", bias=False)
    (w_q,) = (symbol for symbol in f.expr.symbols() if symbol.label == "W^Q")
    wrong = f.expr.xreplace({w_q: w_q.T})
    assert verdict(f.expr, wrong) == "refuted"
    # Scaled by the root of all features rather than of those of a head.
    scores = f.scores
    with sa.assuming("d_model = h*d_k"):
        larger = scores.matrices[0] / sa.sqrt(sa.dim("d_model"))
    assert verdict(scores, larger) == "refuted"


# Groups.


def grouped(layout: str = "row") -> tuple[Any, Any]:
    f = sa.formula("grouped_query", layout)
    return f, {given.name: given for given in f.inputs}


def replaced(expr: Node, **by_name: Any) -> Node:
    """The members of families replaced, by the name of the family."""
    return expr.xreplace(
        {
            symbol: by_name[symbol.label.replace("^", "_")](symbol)
            for symbol in expr.symbols()
            if symbol.label.replace("^", "_") in by_name
        }
    )


@pytest.mark.parametrize("layout", ["column", "row"])
def test_one_head_a_group_is_multi_head_attention(layout: str) -> None:
    f, given = grouped(layout)
    alone = f.expr.subs(r, 1)
    W = sa.family("W^Q", g, *given["W^Q"].shape[-2:])
    plain = replaced(alone, W_Q=lambda symbol: W[symbol.reads[0]])
    usual = sa.formula("multi_head_attention", layout).expr.subs(h, g)
    assert verdict(plain, usual) == "proved"


@pytest.mark.parametrize("layout", ["column", "row"])
def test_one_group_is_multi_query_attention(layout: str) -> None:
    f, given = grouped(layout)
    alone = f.expr.subs(g, 1)
    W = sa.family("W^Q", r, *given["W^Q"].shape[-2:])
    plain = replaced(
        alone,
        W_Q=lambda symbol: W[symbol.reads[1]],
        W_K=lambda symbol: sa.matrix("W^K", *symbol.shape),
        W_V=lambda symbol: sa.matrix("W^V", *symbol.shape),
    )
    shared = sa.formula("multi_query", layout).expr.subs(h, r)
    assert verdict(plain, shared) == "proved"


def test_groups_that_are_tiled_rather_than_repeated_are_refuted() -> None:
    """Head b·g + a for a·r + b: heads of one group stand apart."""
    f, _ = grouped("row")
    head = f.program["head"]
    (W_O,) = (given for given in f.inputs if given.name == "W^O")
    right = sa.heads(sa.heads(head, b, axis=1), a, axis=1) @ W_O
    tiled = sa.heads(sa.heads(head, a, axis=1), b, axis=1) @ W_O
    assert verdict(f.expr, right) == "proved"
    proof = sa.prove(f.expr, tiled)
    assert proof.verdict == "refuted"
    assert proof.sizes["g"] > 1 < proof.sizes["r"]


def test_shared_keys_are_not_keys_for_each_head() -> None:
    many = sa.formula("multi_head_attention", "row").expr
    shared = replaced(many, W_K=lambda symbol: sa.matrix("W", *symbol.shape))
    assert shared.inputs() != many.inputs()
    assert verdict(many, shared) == "refuted"
    clashing = replaced(many, W_K=lambda symbol: sa.matrix("W^K", *symbol.shape))
    with pytest.raises(sa.SymbolClashError, match="W\\^K is two different symbols here"):
        sa.prove(many, clashing)


# Splits of one axis into another.


def test_splits_of_splits() -> None:
    V = sa.matrix("V", h * d, n)
    with sa.assuming("h = g*r"):
        by_head = sa.sum_over(sa.head(V, i, axis=0).T @ sa.head(V, i, axis=0), i)
        within = sa.head(sa.head(V, a, axis=0), b, axis=0)  # (g, r·d), then (r, d)
        nested = sa.sum_over(sa.sum_over(within.T @ within, b), a)
        assert verdict(by_head, nested) == "proved"
        assert verdict(by_head, V.T @ V) == "proved"
        assert verdict(sa.heads(sa.heads(within, b, axis=0), a, axis=0), V) == "proved"
        assert verdict(sa.heads(sa.heads(within, a, axis=0), b, axis=0), V) == "refuted"
        other = sa.head(sa.head(V, b, axis=0), a, axis=0)  # (r, g·d), then (g, d)
        wrong = sa.heads(sa.heads(other, b, axis=0), a, axis=0)
        assert verdict(wrong, V) == "refuted"
        assert verdict(sa.heads(sa.heads(other, a, axis=0), b, axis=0), V) == "proved"


def test_splits_that_conflict_are_never_proved_equal() -> None:
    V = sa.matrix("V", h * d, n)
    c = sa.index("c", d)
    total = sa.sum_over(sa.ones(1, d) @ sa.head(V, i, axis=0), i)
    other = sa.sum_over(sa.ones(1, h) @ sa.head(V, c, axis=0), c)
    proof = sa.prove(total, other)  # both are the sum of all rows
    assert proof.verdict == "undecided"
    assert "is read both as" in proof.reason
    assert verdict(total, sa.ones(1, h * d) @ V) == "proved"
    assert verdict(other, sa.ones(1, h * d) @ V) == "proved"
    squares = sa.sum_over(sa.square(sa.ones(1, d) @ sa.head(V, i, axis=0)), i)
    wrong = sa.sum_over(sa.square(sa.ones(1, h) @ sa.head(V, c, axis=0)), c)
    assert verdict(squares, wrong) == "refuted"


# Indices that are free, and bound again.


def test_a_free_index_stands_for_every_head() -> None:
    W = sa.matrix("W", h * d_v, d)
    assert verdict(sa.head(W @ X, i, axis=0), sa.head(W, i, axis=0) @ X) == "proved"
    assert verdict(F[i].T.T, F[i]) == "proved"
    proof = sa.prove(F[i], F[k])
    assert proof.verdict == "refuted"
    assert set(proof.indices) == {"i", "k"}
    assert proof.indices["i"] != proof.indices["k"]
    assert proof.sizes["h"] > 1
    proof = sa.prove(F[i], sa.sum_over(F[i], i))
    assert proof.verdict == "refuted"
    assert 0 <= proof.indices["i"] < proof.sizes["h"]
    assert verdict(sa.head(sa.heads(X, i, axis=0), i, axis=0), X) == "proved"  # on one side alone


def test_blocks_along_different_axes() -> None:
    """The operand of the one does not fit the other, where steps are looked for."""
    A = sa.matrix("A", n, m)
    rows = sa.head(sa.heads(A, i, axis=0), i, axis=0)
    columns = sa.head(sa.heads(A, i, axis=1), i, axis=1)
    assert verdict(rows, columns) == "proved"
    assert verdict(sa.sum_over(rows @ A.T, i), sa.sum_over(columns @ A.T, i)) == "proved"
    assert verdict(sa.tanh(rows), sa.head(sa.heads(-A, i, axis=1), i, axis=1)) == "refuted"


def test_a_letter_is_no_matter() -> None:
    assert verdict(sa.sum_over(F[i], i), sa.sum_over(F[k], k)) == "proved"
    assert verdict(sa.heads(F[i], i, axis=1), sa.heads(F[k], k, axis=1)) == "proved"


def test_nothing_is_captured() -> None:
    total = sa.sum_over(S[i], i)
    assert verdict(sa.sum_over(S[i] @ total, i), total @ total) == "proved"
    assert verdict(sa.sum_over(S[i] @ total, i), sa.sum_over(S[i] @ S[i], i)) == "refuted"
    assert verdict(S[i] @ total, sa.sum_over(S[i] @ S[k], k)) == "proved"
    assert verdict(S[i] @ total, S[i] @ S[i]) == "refuted"
    stacked = sa.heads(S[i], i, axis=0)
    block = sa.head(stacked, i, axis=0)
    assert verdict(block, S[i]) == "proved"
    assert verdict(sa.heads(block @ total, i, axis=0), stacked @ total) == "proved"
    assert verdict(sa.head(stacked @ S[i], i, axis=0), S[i] @ S[i]) == "proved"
    assert verdict(sa.head(stacked @ S[k], i, axis=0), S[i] @ S[k]) == "proved"
    assert verdict(sa.head(stacked @ S[k], i, axis=0), S[i] @ S[i]) == "refuted"


def test_a_product_with_what_reads_the_index_is_left_alone() -> None:
    W = sa.family("W", h, h * n, n)
    stacked = sa.heads(S[i], i, axis=1)
    # W_i is of the index outside, not of the one that the heads run over.
    left = stacked @ W[i]
    wrong = sa.sum_over(S[i] @ sa.head(W[i], i, axis=0), i)
    right = sa.sum_over(S[k] @ sa.head(W[i], k, axis=0), k)
    assert verdict(left, right) == "proved"
    assert verdict(left, wrong) == "refuted"


def test_constants_over_heads() -> None:
    assert verdict(sa.sum_over(X, i), h * X) == "proved"
    assert verdict(sa.sum_over(X, i), X) == "refuted"
    assert verdict(sa.heads(X, i, axis=0), sa.heads(X, i, axis=0)) == "proved"
    one = sa.index("i", 1)
    assert verdict(sa.heads(X, one, axis=0), X) == "proved"
    assert verdict(sa.sum_over(X, one), X) == "proved"
    assert verdict(sa.head(X, one, axis=1), X) == "proved"


def test_softmax_masks_and_maxima_of_heads() -> None:
    stacked = sa.heads(S[i], i, axis=1)
    softmax = sa.heads(sa.softmax(S[i], axis=0), i, axis=1)
    assert verdict(sa.softmax(stacked, axis=0), softmax) == "proved"
    assert verdict(sa.softmax(stacked, axis=1), sa.heads(sa.softmax(S[i], axis=1), i, axis=1)) == (
        "refuted"
    )
    mask = sa.causal("top_left")
    shifted = S[i] + sa.ones(n, 1) @ sa.ones(1, n) * sa.scalar("c")
    masked = sa.sum_over(sa.softmax(shifted, axis=0, mask=mask), i)
    assert verdict(masked, sa.sum_over(sa.softmax(S[i], axis=0, mask=mask), i)) == "proved"
    assert verdict(masked, sa.sum_over(sa.softmax(S[i], axis=0), i)) == "refuted"
    largest = sa.max(stacked, axis=0)
    assert verdict(largest, sa.heads(sa.max(S[i], axis=0), i, axis=1)) in ("proved", "undecided")
    assert verdict(largest, sa.heads(sa.max(S[i].T, axis=0), i, axis=1)) == "refuted"


def test_a_counterexample_shows_the_values_of_the_indices() -> None:
    text = sa.prove(F[i], F[k]).text()
    assert "i = " in text
    assert "k = " in text


def test_what_a_symbol_stands_for_is_not_captured() -> None:
    square, x = sa.family("W", h, d, d), sa.family("x", h, d, n)
    total = sa.sum_over(square[i] @ X, i)
    with pytest.raises(sa.SymbolClashError, match="i is two different symbols"):
        sa.prove(total, sa.sum_over(square[i] @ x[i], i), given={X: x[i]})
    assert sa.prove(total, sa.sum_over(square[i] @ x[k], i), given={X: x[k]})


def test_families_of_quotients() -> None:
    G = sa.family("G", h, d, "d_model//h")
    for left, right in (
        (G[i], G[i].T.T),
        (sa.sum_over(G[i], i).T, sa.sum_over(G[i].T, i)),
        (sa.heads(G[i], i, axis=1).T, sa.heads(G[i].T, i, axis=0)),
    ):
        assert verdict(left, left) == verdict(left, right) == "proved"
        assert sa.prove(left, right).conditions == ("h divides d_model",)
    assert verdict(sa.sum_over(G[i], i), sa.sum_over(2 * G[i], i)) == "refuted"


def test_sums_over_four_indices_in_any_order() -> None:
    letters = [sa.index(name, size) for name, size in zip("pqst", (g, r, d, m), strict=True)]
    member = sa.family("G", (g, r, d, m), n, n)[tuple(letters)]

    def total(order: list[Any], body: Node) -> Node:
        for each in order:
            body = sa.sum_over(body, each)
        return body

    began = time.process_time()
    assert verdict(total(letters, member), total(letters[::-1], member)) == "proved"
    assert verdict(total(letters, member), total(letters, member.T)) == "refuted"
    assert time.process_time() - began < 10
