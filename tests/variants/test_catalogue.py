"""Every entry of the catalogue: complete, printed, proved equal across layouts, right in numbers.

The numbers are compared with loops that are written by hand, entry by entry, from the papers' own
index formulas: see `tests/loops.py`.
"""

import copy
import pickle
import re
from typing import Any

import numpy as np
import pytest

import symattn as sa
from symattn.variants import Formula
from symattn.variants.catalogue import CATALOGUE
from symattn.variants.layouts import BUILDERS
from tests import loops
from tests.variants.points import (
    NAMES,
    PACKED,
    SIZES,
    Options,
    each_layout,
    each_name,
    each_variant,
    looped,
    random_column_arrays,
    run_time,
    turned,
)


def test_every_entry_has_its_loops() -> None:
    assert tuple(loops.CATALOGUE) == NAMES == tuple(CATALOGUE)


def test_sizes_are_pairwise_different() -> None:
    assert len(set(SIZES.values())) == len(SIZES)


@each_name
def test_column_layout_runs_as_the_loops(name: str) -> None:
    formula = sa.formula(name)
    arrays = random_column_arrays(formula, seed=1)
    f = sa.lambdify(formula.inputs, formula.expr)
    result = f(*arrays.values(), **run_time(name))
    np.testing.assert_allclose(result, looped(name, arrays), rtol=0, atol=1e-12)


@each_name
def test_row_layout_runs_as_the_loops(name: str) -> None:
    column, row = sa.formula(name), sa.formula(name, layout="row")
    arrays = random_column_arrays(column, seed=2)
    given = [
        turned(array, symbol, row.twins)
        for array, symbol in zip(arrays.values(), row.inputs, strict=True)
    ]
    result = sa.lambdify(row.inputs, row.expr)(*given, **run_time(name))
    np.testing.assert_allclose(result, looped(name, arrays).T, rtol=0, atol=1e-12)


@each_name
def test_a_formula_is_taken_by_lambdify_as_it_is(name: str) -> None:
    formula = sa.formula(name)
    arrays = random_column_arrays(formula, seed=3)
    result = sa.lambdify(formula.inputs, formula)(*arrays.values(), **run_time(name))
    np.testing.assert_allclose(result, looped(name, arrays), rtol=0, atol=1e-12)


@each_name
def test_layouts_are_proved_equal(name: str) -> None:
    column, row = sa.formula(name), sa.formula(name, layout="row")
    proofs = [sa.prove(column, row)]
    if row.twins.keys().isdisjoint(column.expr.symbols()):  # no square weight of one name
        proofs.append(sa.prove(column.expr, row.expr.T, given=row.twins))
    for proof in proofs:
        assert proof.verdict == "proved"
        assert proof.check()


@each_variant
@each_layout
def test_the_other_layout_is_a_translation(name: str, options: Options, layout: str) -> None:
    formula = sa.formula(name, layout=layout, **options)
    other = sa.formula(name, "row" if layout == "column" else "column", **options)
    translation = sa.translate(formula, to=other.layout)
    assert translation.proof.verdict == "proved"
    assert set(translation.expr.inputs()) == set(other.expr.inputs())


@each_variant
@each_layout
def test_an_entry_is_complete(name: str, options: Options, layout: str) -> None:
    formula = sa.formula(name, layout=layout, **options)
    assert (formula.name, formula.layout) == (name, layout)
    assert dict(formula.options) == CATALOGUE[name].options | options
    assert formula.title
    assert "arXiv" in formula.source
    assert "section" in formula.source
    assert set(formula.inputs) == set(formula.expr.inputs())
    assert {dim.name for dim in formula.dims} == set(formula.expr.tags)
    assert formula.weights == formula.program["P"]
    assert formula.expr == formula.program.result == formula.program["O"]
    assert formula.relations.text() == RELATIONS.get(name, "")


RELATIONS: dict[str, str] = dict.fromkeys(PACKED, "d_model = h*d_k")
BIASES = {"b^Q", "b^K", "b^V", "b^O"}

# Weights of a score are the same in both layouts.
SHARED = {
    "luong_general": {"W"},
    "location": {"W_a"},
    "luong_concat": {"W_a", "v"},
    "additive": {"W_a", "U_a", "v"},
    "encoder_decoder_context": {"W_a", "U_a", "v"},
    "packed_multi_head": BIASES,
    "packed_multi_head_cross": BIASES,
}


@each_variant
def test_twins_are_transposes_of_the_other_layout(name: str, options: Options) -> None:
    column, row = (sa.formula(name, layout, **options) for layout in ("column", "row"))
    assert column.twins == row.twins
    for twin, form in row.twins.items():
        assert twin.source in row.inputs
        assert twin.sizes == form.sizes
        assert set(form.inputs()) <= set(column.inputs)
    unused = set() if options.get("bias", True) else BIASES
    shared = set(row.inputs) - {twin.source for twin in row.twins}
    assert shared <= set(column.inputs)
    assert {symbol.name for symbol in shared} == SHARED.get(name, set()) - unused


SEVERAL_HEADS = {"multi_head_attention", "multi_head_cross_attention", "grouped_query"}
SEVERAL_HEADS |= {"packed_multi_head", "packed_multi_head_cross", "multi_query"}


@each_variant
@each_layout
@pytest.mark.parametrize("preset", ["freshrimp", "vaswani"])
def test_an_entry_prints_in_each_preset(
    name: str, options: Options, layout: str, preset: str
) -> None:
    formula = sa.formula(name, layout=layout, **options)
    attention, score = formula.latex_signatures(preset)
    for latex in (sa.latex(formula.expr, preset=preset), attention, score):
        assert latex.count("{") == latex.count("}") > 0
        assert latex.count(r"\left") == latex.count(r"\right")
    called = "MultiHead" if name in SEVERAL_HEADS else "Attention"
    assert rf"\operatorname{{{called}}}: " in attention
    assert re.match(r"f_(\{.+?\}|i): " if name in SEVERAL_HEADS else "f: ", score)
    assert (r"\ldots" in score) is (name in SEVERAL_HEADS)
    matrices = attention.replace(r"\mathbf{1}", "")  # ones are bold in every preset
    assert (r"\mathbf" in matrices) is (preset == "freshrimp")


@pytest.mark.parametrize(
    ("name", "function", "heads", "latex_heads"),
    [
        ("multi_head_attention", "f_i: ", ["i = 1, …, h"], r",\quad i = 1, \ldots, h"),
        (
            "grouped_query",
            "f_{a,b}: ",
            ["a = 1, …, g", "b = 1, …, r"],
            r",\quad a = 1, \ldots, g,\quad b = 1, \ldots, r",
        ),
    ],
)
def test_each_head_has_a_score_function(
    name: str, function: str, heads: list[str], latex_heads: str
) -> None:
    formula = sa.formula(name, layout="row")
    score = formula.signatures()[1]
    assert score.startswith(function)
    assert score.endswith(f" / √d_k, {', '.join(heads)}")
    latex = formula.score_signature
    assert latex.startswith(function)
    assert latex.endswith(r"\mathbb{R}^{n \times n}" + latex_heads)


@each_variant
@each_layout
def test_the_scores_and_weights_are_where_they_are_said_to_be(
    name: str, options: Options, layout: str
) -> None:
    formula = sa.formula(name, layout=layout, **options)
    axis = BUILDERS[layout].axis
    mask = formula.weights.mask
    assert formula.weights == sa.softmax(formula.scores, axis=axis, mask=mask)
    queries, keys = formula.scores.shape if layout == "row" else formula.scores.shape[::-1]
    query, key, _ = formula.operands
    assert query.shape[BUILDERS[layout].tokens] == queries
    assert key.shape[BUILDERS[layout].tokens] == keys


@each_variant
@each_layout
def test_the_lines_make_the_formula(name: str, options: Options, layout: str) -> None:
    """Put back into each other, the lines of `.lines` are the formula."""
    formula = sa.formula(name, layout=layout, **options)
    made: dict[Any, Any] = {}
    for label, line in formula.lines.items():
        whole = line.xreplace(made)
        assert whole == formula.program[label]
        made[formula.program.line_symbols[label]] = whole


# What the texts and papers print.
WRITTEN = {
    ("dot_product", "column"): "V Softmax(KᵀQ)",
    ("luong_general", "column"): "V Softmax(KᵀWQ)",
    ("scaled_dot_product", "column"): "V Softmax(KᵀQ / √d_k)",
    ("self_attention", "column"): "W^V X Softmax((W^K X)ᵀ (W^Q X))",
    ("cross_attention", "column"): "W^V Y Softmax((W^K Y)ᵀ (W^Q X))",
    ("causal_self_attention", "column"): "W^V X Softmax_{j ≤ i}((W^K X)ᵀ (W^Q X) / √d_k)",
    ("sliding_window", "row"): "softmax_{i - w < j < i + w}(X W^Q (X W^K)ᵀ / √d_k) (X W^V)",
    ("key_padding", "column"): "V Softmax_{padding[j]}(KᵀQ / √d_k)",
    ("key_padding", "row"): "softmax_{padding[j]}(QKᵀ / √d_k) V",
    ("additive", "column"): "V Softmax([vᵀ tanh(W_a q + U_a k)]_{k ∈ K, q ∈ Q})",
    ("luong_concat", "column"): "V Softmax([vᵀ tanh(W_a [q; k])]_{k ∈ K, q ∈ Q})",
    ("location", "column"): "V Softmax(W_a Q)",
    ("softcap", "column"): "V Softmax(c tanh((KᵀQ / √d_k) / c))",
    ("alibi", "column"): "V Softmax(KᵀQ / √d_k + [-slope (i - j)]_{j,i})",
    ("additive_bias", "column"): "V Softmax(KᵀQ / √d_k + B)",
    ("additive_bias", "row"): "softmax(QKᵀ / √d_k + B) V",
    ("single_query", "column"): "X softmax(Xᵀq)",
    ("encoder_decoder_context", "column"): ("H softmax([vᵀ tanh(W_a s + U_a k)]_{k ∈ H})"),
    ("additive", "row"): "softmax([vᵀ tanh(W_a q + U_a k)]_{q ∈ Q, k ∈ K}) V",
    ("softcap", "row"): "softmax(c tanh((QKᵀ / √d_k) / c)) V",
    ("single_query", "row"): "softmax(qXᵀ) X",
    ("dot_product", "row"): "softmax(QKᵀ) V",
    ("luong_general", "row"): "softmax(QWᵀKᵀ) V",
    ("scaled_dot_product", "row"): "softmax(QKᵀ / √d_k) V",
    ("self_attention", "row"): "softmax(X W^Q (X W^K)ᵀ) (X W^V)",
    ("cross_attention", "row"): "softmax(X W^Q (Y W^K)ᵀ) (Y W^V)",
    ("multi_head_attention", "row"): (
        "Concat_{i=1..h}(softmax(X W^Q_i (X W^K_i)ᵀ / √d_k) (X W^V_i)) W^O"
    ),
    ("multi_head_cross_attention", "column"): (
        "W^O Concat_{i=1..h}(W^V_i Y Softmax((W^K_i Y)ᵀ (W^Q_i X) / √d_k))"
    ),
    ("multi_query", "row"): "Concat_{i=1..h}(softmax(X W^Q_i (X W^K)ᵀ / √d_k) (X W^V)) W^O",
    ("grouped_query", "row"): (
        "Concat_{a=1..g}(Concat_{b=1..r}(softmax(X W^Q_{a,b} (X W^K_a)ᵀ / √d_k) (X W^V_a))) W^O"
    ),
}


@pytest.mark.parametrize(("name", "layout"), WRITTEN, ids=lambda part: str(part))
def test_a_formula_is_written_as_its_source_writes_it(name: str, layout: str) -> None:
    text = sa.text(sa.formula(name, layout=layout).expr)
    assert text.replace(" ", "") == WRITTEN[name, layout].replace(" ", "")


def test_the_printed_signature_of_the_texts() -> None:
    signature = sa.formula("dot_product").signature
    assert signature == (
        r"\begin{aligned} \operatorname{Attention}: M^{d_{k} \times n} \times M^{d_{k} \times m} "
        r"\times M^{d_{v} \times m} &\to M^{d_{v} \times n} \\ "
        r"(\mathbf{Q},\mathbf{K},\mathbf{V}) &\mapsto "
        r"\mathbf{V} \operatorname{Softmax} (\mathbf{K}^{\mathsf{T}} \mathbf{Q}) \end{aligned}"
    )
    assert sa.formula("dot_product").score_signature == (
        r"f: M^{d_{k} \times n} \times M^{d_{k} \times m} \to M^{m \times n}"
    )


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("scaled_dot_product", "Q d_k n, K d_k m, V d_v m"),
        ("luong_general", "Q d_k n, K d_k m, V d_v m, W d_k d_k"),
        ("self_attention", "X d n, W^Q d_k d, W^K d_k d, W^V d_v d"),
        ("cross_attention", "X d_x n, Y d_y m, W^Q d_k d_x, W^K d_k d_y, W^V d_v d_y"),
        (
            "multi_head_attention",
            "X d_model n, W^Q h d_k d_model, W^K h d_k d_model, W^V h d_v d_model, "
            "W^O d_model h*d_v",
        ),
        (
            "grouped_query",
            "X d_model n, W^Q g r d_k d_model, W^K g d_k d_model, W^V g d_v d_model, "
            "W^O d_model g*r*d_v",
        ),
        (
            "multi_query",
            "X d_model n, W^Q h d_k d_model, W^K d_k d_model, W^V d_v d_model, W^O d_model h*d_v",
        ),
    ],
)
def test_inputs_stand_in_calling_order(name: str, shapes: str) -> None:
    column, row = sa.formula(name), sa.formula(name, layout="row")

    def shown(formula: Formula, *axes: int) -> str:
        return ", ".join(
            " ".join(map(str, (s.name, *s.sizes[:-2], *(s.sizes[axis] for axis in axes))))
            for s in formula.inputs
        )

    assert shown(column, -2, -1) == shown(row, -1, -2) == shapes


def test_packed_inputs_stand_in_the_order_of_their_use() -> None:
    for layout in ("column", "row"):
        names = [given.name for given in sa.formula("packed_multi_head", layout).inputs]
        assert names == ["X", "W^Q", "b^Q", "W^K", "b^K", "W^V", "b^V", "W^O", "b^O"]
        bare = sa.formula("packed_multi_head_cross", layout, bias=False)
        assert [given.name for given in bare.inputs] == ["X", "Y", "W^Q", "W^K", "W^V", "W^O"]


@pytest.mark.parametrize("name", PACKED)
def test_without_biases_both_layouts_run_as_the_loops(name: str) -> None:
    column, row = (sa.formula(name, layout, bias=False) for layout in ("column", "row"))
    arrays = random_column_arrays(column, seed=4)
    expected = loops.CATALOGUE[name](*arrays.values(), h=SIZES["h"])
    with_biases = looped(name, random_column_arrays(sa.formula(name), seed=4))
    assert not np.allclose(expected, with_biases)
    result = sa.lambdify(column.inputs, column)(*arrays.values(), h=SIZES["h"])
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-12)
    turned_arrays = [array.T for array in arrays.values()]
    result = sa.lambdify(row.inputs, row)(*turned_arrays, h=SIZES["h"])
    np.testing.assert_allclose(result, expected.T, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", PACKED)
def test_without_biases_the_layouts_are_proved_equal(name: str) -> None:
    column, row = (sa.formula(name, layout, bias=False) for layout in ("column", "row"))
    proof = sa.prove(column, row)
    assert proof.verdict == "proved"
    assert proof.check()
    assert sa.prove(column.expr, sa.formula(name).expr).verdict == "refuted"


def test_a_choice_is_the_default_or_another_formula() -> None:
    assert sa.formula("packed_multi_head", bias=True) == sa.formula("packed_multi_head")
    bare = sa.formula("packed_multi_head", bias=False)
    assert bare != sa.formula("packed_multi_head")
    assert bare.options == (("bias", False),)
    assert not {given.name for given in bare.inputs} & BIASES


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        (
            "packed_multi_head",
            {"nonsense": True},
            sa.UnknownNameError,
            "there is no choice named 'nonsense'",
        ),
        (
            "packed_multi_head",
            {"biass": False},
            sa.UnknownNameError,
            "there is no choice named 'biass'; did you mean 'bias'",
        ),
        ("packed_multi_head", {"bias": 1}, sa.OperationRefusedError, "bias=1"),
        (
            "packed_multi_head",
            {"bias": "no"},
            sa.OperationRefusedError,
            "write bias=True or bias=False",
        ),
        ("dot_product", {"bias": True}, sa.UnknownNameError, "there is no choice named 'bias'"),
        ("multi_query", {"bias": True}, sa.UnknownNameError, "there is no choice named 'bias'"),
    ],
)
def test_what_is_no_choice_is_refused(
    name: str, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as refused:
        sa.formula(name, **options)
    assert message in str(refused.value)


def test_the_wrong_twin_of_the_general_score_is_refuted() -> None:
    column, row = sa.formula("luong_general"), sa.formula("luong_general", layout="row")
    inputs: tuple[Any, ...] = row.inputs
    Q, K, V, W = inputs
    wrong = sa.softmax(Q @ W @ K.T, axis=1) @ V
    assert sa.prove(column.expr, wrong.T, given=row.twins).verdict == "refuted"


@pytest.mark.parametrize(
    "other",
    [
        name
        for name in NAMES
        if name != "scaled_dot_product"
        and {symbol.name for symbol in sa.formula(name).inputs} <= {"Q", "K", "V", "W"}
        and sa.formula(name).expr.shape == sa.formula("scaled_dot_product").expr.shape
    ],
)
def test_formulas_of_the_same_inputs_differ(other: str) -> None:
    scaled = sa.formula("scaled_dot_product").expr
    assert sa.prove(scaled, sa.formula(other).expr).verdict == "refuted"


def test_a_formula_is_itself() -> None:
    scaled = sa.formula("scaled_dot_product").expr
    assert sa.prove(scaled, sa.formula("scaled_dot_product").expr).verdict == "proved"


@each_variant
@each_layout
def test_a_formula_survives_copying_and_pickling(name: str, options: Options, layout: str) -> None:
    formula = sa.formula(name, layout=layout, **options)
    for again in (copy.deepcopy(formula), pickle.loads(pickle.dumps(formula))):
        assert again == formula
        assert hash(again) == hash(formula)
        assert again.twins == formula.twins


def test_formulas_compare_by_what_they_are() -> None:
    assert sa.formula("dot_product") == sa.formula("dot_product", "column")
    assert sa.formula("dot_product") != sa.formula("dot_product", "row")
    assert sa.formula("dot_product") != sa.formula("scaled_dot_product")
    assert sa.formula("dot_product") != "dot_product"


def test_a_formula_shows_itself() -> None:
    formula = sa.formula("scaled_dot_product")
    assert repr(formula) == "scaled_dot_product:column  V Softmax(KᵀQ / √d_k)"
    assert r"\frac" in formula._repr_latex_()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("scaled_dot_prodct", "did you mean 'scaled_dot_product'"),
        ("Dot_Product", "did you mean 'dot_product'"),
        ("zzzz", "there is no formula named 'zzzz'"),
        ("", "there is no formula named ''"),
        ("__import__('os')", "there is no formula named"),
    ],
)
def test_an_unknown_formula_is_answered_with_the_nearest(name: str, message: str) -> None:
    with pytest.raises(sa.UnknownNameError, match=message.replace("(", r"\(").replace(")", r"\)")):
        sa.formula(name)


@pytest.mark.parametrize("layout", ["rows", "col", "", "Column", None, 0])
def test_an_unknown_layout_is_refused(layout: Any) -> None:
    with pytest.raises(sa.UnknownNameError, match="layout"):
        sa.formula("dot_product", layout=layout)
