"""`score_code` for torch's flex attention, run by it without compiling, against NumPy's output."""

from __future__ import annotations

import inspect
from typing import Any, cast

import numpy as np
import pytest

import symattn as sa
from symattn.codegen.gpu.dialects import FLEX
from symattn.codegen.gpu.leaves import DotLeaf
from symattn.notation.names import identifier
from tests.codegen.gpu.formulas import FORMULAS, B, K, Q, V, attention, d, m, n
from tests.codegen.gpu.pairs import Numbers, Pairs, attended_in

pytestmark = pytest.mark.filterwarnings("ignore:.*flex_attention:UserWarning")

NO_PRODUCT = {"additive", "encoder_decoder_context", "a sum over entries"}
WITH_PRODUCT = [
    name
    for name in FORMULAS
    if not {name, name.split()[0]} & NO_PRODUCT
    and (name.endswith(" row") or name.split()[0] not in sa.formulas())
]
IN_COLUMNS = ["additive_bias column", "cosine column", "grouped_query column"]


def run(source: str) -> Any:
    """The function ``mods`` of a module."""
    namespace: dict[str, Any] = {}
    exec(compile(source, "<score_code>", "exec"), namespace)
    return namespace["mods"]


def flex_attention(formula: Any, numbers: Numbers, **renamed: str) -> tuple[Any, np.ndarray]:
    """What torch computes, and what NumPy does, (heads, n, d_v)."""
    torch = pytest.importorskip("torch")
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    (attended,) = attended_in(formula)
    pairs = Pairs(attended, FLEX, numbers)
    mods = run(sa.score_code(formula))
    (dot,) = (leaf for leaf in pairs.text.leaves.values() if isinstance(leaf, DotLeaf))
    values = pairs.spread(attended.matrices[0])
    queries = [pairs.along(dot.query, dot.query_axis), pairs.along(dot.key, dot.key_axis)]
    queries.append(values if attended.query_axis == 0 else values.swapaxes(-1, -2))
    batch = np.broadcast_shapes(*(x.shape[:-2] for x in queries))
    q, k, v = (
        torch.from_numpy(
            np.broadcast_to(x, (*batch, *x.shape[-2:])).reshape(1, -1, *x.shape[-2:]).copy()
        )
        for x in queries
    )
    given: dict[str, Any] = {}
    scalars = {identifier(name): value for name, value in numbers.scalars.items()}
    for name in inspect.signature(mods).parameters:
        label = renamed.get(name, name)
        if label in numbers.arrays:
            given[name] = torch.from_numpy(numbers.arrays[label])
        elif name in scalars:
            given[name] = scalars[name]
        elif name in numbers.sizes:
            given[name] = numbers.sizes[name]
        else:
            operand = cast(Any, pairs.text.leaves[name]).operand
            given[name] = torch.from_numpy(pairs.operands[operand])
    scale, score_mod, mask_mod = mods(**given)
    block_mask = mask_mod and flex.create_block_mask(
        mask_mod, 1, q.shape[1], pairs.n, pairs.m, device="cpu"
    )
    found = flex.flex_attention(q, k, v, score_mod=score_mod, block_mask=block_mask, scale=scale)
    return found[0], pairs.output()


@pytest.mark.parametrize("name", [*WITH_PRODUCT, *IN_COLUMNS])
def test_flex_attention(name: str) -> None:
    found, expected = flex_attention(FORMULAS[name], Numbers(seed=3))
    expected = expected.reshape(found.shape)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-12)


def test_names_of_users_and_ours() -> None:
    torch_, math, c0, score = (sa.scalar(x) for x in ("torch", "math", "c0", "score"))
    b, h, entry = sa.matrix("b", n, m), sa.matrix("h", n, m), sa.matrix("e0", n, m)
    scores = sa.tanh(Q @ K.T / torch_ + c0 * b + sa.exp(score) * h) * math + entry
    mods, scale = sa.scalar("mods"), sa.scalar("q_idx", positive=True)
    bias = sa.positional(lambda i, j: mods * i - j / sa.sqrt(scale), n, m, layout="row")
    mask = sa.window("kv_idx", align="top_left")
    formula = sa.softmax(scores + bias, axis=1, mask=mask) @ V
    numbers = Numbers()
    numbers.sizes["kv_idx"] = 3
    found, expected = flex_attention(formula, numbers, b_2="b", h_2="h")
    np.testing.assert_allclose(found.numpy()[0], expected, rtol=1e-12, atol=1e-12)


def test_a_query_without_keys() -> None:
    numbers = Numbers()
    numbers.arrays["keep"] = np.arange(5)[:, None] != np.full(7, 2)
    found, expected = flex_attention(attention(mask=sa.keep()), numbers)
    np.testing.assert_allclose(found.numpy()[0], expected, rtol=1e-12, atol=1e-12)
    assert (expected[2] == 0).all()


@pytest.mark.parametrize("axes", [(), (2,), (3, 1), (1, 2), (3, 2)])
def test_tensors_of_batch_and_heads(axes: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    given = np.random.default_rng(1).normal(size=(*axes, 5, 7))
    padding = np.random.default_rng(2).random((*axes, 7)) < 0.5
    formula = sa.softmax(Q @ K.T + B, axis=1, mask=sa.padding()) @ V
    _, score_mod, mask_mod = run(sa.score_code(formula))(
        B=torch.from_numpy(given), padding=torch.from_numpy(padding)
    )
    for b, h in np.ndindex(3, 2):
        bias = np.broadcast_to(given, (3, 2, 5, 7))[b, h]
        assert score_mod(0.5, b, h, 4, 2) == 0.5 + bias[4, 2]
        kept = [bool(mask_mod(b, h, 0, j)) for j in range(7)]
        assert kept == np.broadcast_to(padding, (3, 2, 7))[b, h].tolist()


@pytest.mark.parametrize("layout", ["row", "column"])
def test_a_number_of_each_head_is_given_as_to_numpy(layout: str) -> None:
    torch = pytest.importorskip("torch")
    h, d_v = sa.dims("h d_v")
    i, slopes, rng = sa.index("i", h), sa.family("slope", h, 1, 1), np.random.default_rng(4)
    sizes = ((n, d), (m, d), (m, d_v))
    heads = [
        sa.family(name, h, *(pair if layout == "row" else pair[::-1]))
        for name, pair in zip("QKV", sizes, strict=True)
    ]
    query, key, value = (x[i] for x in heads)
    each = sa.attention(query, key, value, layout=layout, bias=lambda a, b: slopes[i] * (b - a))
    source = sa.score_code(each)
    assert "        slope: slope_i, (…, h, 1, 1)\n" in source
    slope = rng.normal(size=(3, 1, 1))
    given = {"d": 4, "slope": torch.from_numpy(slope)}
    _, score_mod, _ = run(source)(**given)
    score = torch.tensor(0.25, dtype=torch.float64)
    for head, q, k in np.ndindex(3, 5, 7):
        expected = 0.25 + slope[head, 0, 0] * (k - q)
        found = score_mod(score, 0, head, torch.tensor(q), torch.tensor(k))
        np.testing.assert_allclose(float(found), expected, rtol=1e-14)


def test_what_is_told_of_the_tensors_of_masks() -> None:
    for mask, axes in ((sa.padding(), "padding: (…, m)"), (sa.keep(), "keep: (…, n, m)")):
        source = sa.score_code(attention(mask=mask))
        assert f"        {axes}, booleans: True where a query sees a key\n" in source


def test_blank_lines() -> None:
    for mask in ({}, {"mask": sa.causal("top_left")}):
        for bias in ({}, {"bias": lambda i, j: i - j}):
            _, _, body = sa.score_code(attention(**mask, **bias)).rpartition("scale = c0\n")
            assert "\n\n\n" not in body
            blank = body.count("\n\n    def ") + body.startswith("\n    def ")
            assert blank == body.count("def "), body


def test_positions_that_no_float32_holds() -> None:
    torch = pytest.importorskip("torch")
    scale, score_mod, _ = run(sa.score_code(attention(bias=lambda i, j: i - j)))(d=4)
    score, far = torch.zeros((), dtype=torch.float32), torch.tensor(2**25 + 1)
    assert scale == 0.5
    assert score_mod(score, 0, 0, far, far - 3) == 3


W = sa.matrix("W", d, d)
P = sa.softmax(Q @ K.T, axis=1)


@pytest.mark.parametrize(
    ("formula", "reason"),
    [
        (sa.formula("additive"), "scores that are made from no inner product, in flex"),
        (sa.softmax(B, axis=1) @ V, "scores that are made from no inner product, in flex"),
        (
            sa.softmax(sa.hadamard(Q @ K.T, Q @ W @ K.T), axis=1) @ V,
            "made from more than one inner product, in flex",
        ),
        (sa.hadamard(P, B) @ V, "weights that are changed after the softmax, in flex"),
        (P @ V + sa.softmax(B, axis=1) @ V, "one score where there are 2 softmaxes"),
        (sa.sigmoid(Q @ K.T) @ V, "one score where there are weights that are no softmax"),
        (P, "are the result themselves|with no values"),
        (Q @ K.T, "there is no softmax in it"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_refused(formula: Any, reason: str) -> None:
    with pytest.raises(sa.NotSupportedError, match=reason):
        sa.score_code(formula)
