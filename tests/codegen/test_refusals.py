"""Every refusal: at generation and at the call, each with what its message has to say."""

import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy

import symattn as sa
from symattn.errors import (
    CallError,
    InputError,
    InputShapeError,
    ScalarError,
    SignatureError,
)

d_k, d_v, n, m, h, g, d, d_model = sa.dims("d_k d_v n m h g d d_model")
Q, K, V = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m)
A = V @ sa.softmax(K.T @ Q / sa.sqrt(d_k), axis=0)
QR, KR, VR = sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v)
R = sa.softmax(QR @ KR.T / sa.sqrt(d_k), axis=1) @ VR
c, tau = sa.scalar("c"), sa.scalar("tau", positive=True)

f = sa.lambdify([Q, K, V], A)
q, k, v = np.ones((4, 5)), np.ones((4, 7)), np.ones((3, 7))


def message(error: type[Exception], call: Any, *args: Any, **kwargs: Any) -> str:
    """The message of the error that a call raises; it survives pickling."""
    with pytest.raises(error) as raised:
        call(*args, **kwargs)
    assert isinstance(raised.value, sa.SymattnError)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
    return str(raised.value)


# At generation.


def test_inputs_that_are_not_the_formulas() -> None:
    B = sa.matrix("B", m, n)
    text = message(SignatureError, sa.lambdify, [Q, K, B], A)
    assert text == (
        "no function of these inputs computes V Softmax(KᵀQ / √d_k)\n"
        "  V ∈ M^{d_v×m} is in the formula, but not among the inputs\n"
        "  B ∈ M^{m×n} is among the inputs, but not in the formula"
    )
    text = message(SignatureError, sa.lambdify, [QR, K, V], A)
    assert "Q ∈ M^{d_k×n} is in the formula, but not among" in text
    assert "Q ∈ M^{n×d_k} is among the inputs, but not in" in text
    assert "Q ∈ M^{d_k×n} is given twice" in message(SignatureError, sa.lambdify, [Q, Q, K, V], A)
    assert "c is among the inputs, but" in message(SignatureError, sa.lambdify, [Q, c], 2 * Q)


def test_scalars_that_are_not_listed_are_given_by_name() -> None:
    f = sa.lambdify([Q], c * Q)
    assert f(np.ones((2, 3)), c=2.0).tolist() == [[2.0] * 3] * 2
    assert "c is missing" in message(sa.CallError, f, np.ones((2, 3)))
    assert "takes 1 inputs by position" in message(sa.CallError, f, np.ones((2, 3)), 2.0)


def test_two_inputs_with_one_spelling() -> None:
    first, second = sa.matrix("W^Q", d, d), sa.matrix("W_Q", d, d)
    text = message(SignatureError, sa.lambdify, [first, second], first @ second)
    assert "W^Q ∈ M^{d×d} and W_Q ∈ M^{d×d} would both be called W_Q; rename one" in text
    other = sa.matrix("Q", m, n)
    text = message(SignatureError, sa.lambdify, [Q, other], other @ Q.T)
    assert "would both be called Q" in text


def test_a_size_that_is_spelt_like_an_input() -> None:
    H = sa.matrix("h", d, n)
    text = message(SignatureError, sa.lambdify, [H], H / sa.sqrt(h))
    assert "the size h and an input are both given as h" in text
    N = sa.matrix("n", d, n)  # n is read off the shape, so nobody has to give it
    found = sa.lambdify([N], N / n)(np.ones((2, 4)))
    assert found.tolist() == [[0.25] * 4] * 2


def test_what_is_no_input_and_what_is_no_formula() -> None:
    assert "n is a size: it is read off" in message(SignatureError, sa.lambdify, [Q, n], n * Q)
    assert "K.T is not an input" in message(SignatureError, sa.lambdify, [K.T], K.T)
    assert "Q stands alone; give a list" in message(SignatureError, sa.lambdify, Q, Q)
    array = np.array(1.0)
    assert "array of shape () is no list" in message(SignatureError, sa.lambdify, array, Q)
    assert "None is no list of inputs" in message(SignatureError, sa.lambdify, None, Q)
    assert "the inputs come first" in message(SignatureError, sa.lambdify, Q, [Q])
    assert "never evaluated" in message(sa.TextRefusedError, sa.lambdify, ["Q"], Q)
    assert "never evaluated" in message(sa.TextRefusedError, sa.lambdify, [Q], "Q")
    assert "a formula, a program" in message(sa.NotAnOperandError, sa.lambdify, [Q], 3)
    phi = sa.function("phi")
    assert "running phi" in message(sa.NotSupportedError, sa.lambdify, [Q], phi(Q))


def test_unknown_backends_and_plans() -> None:
    text = message(sa.UnknownNameError, sa.lambdify, [Q, K, V], A, backend="numpi")
    assert text == "there is no backend named 'numpi'; did you mean 'numpy'?"
    text = message(sa.UnknownNameError, sa.lambdify, [Q, K, V], A, backend="torch")
    assert text == "there is no backend named 'torch'; there are numpy, cupy"
    message(sa.UnknownNameError, sa.lambdify, [Q, K, V], A, backend=None)
    message(sa.UnknownNameError, sa.lambdify, [Q, K, V], A, plan="dirct")
    assert "softmax" in message(sa.NotSupportedError, sa.lambdify, [Q, K], K.T @ Q, plan="blocked")
    assert sa.lambdify([Q, K, V], A, plan="direct").source == f.source


# Numbers and names of arguments.


def test_too_many_too_few_and_unknown_arguments() -> None:
    assert message(CallError, f, q, k, v, q) == (
        "compute(Q, K, V): takes 3 inputs by position, but 4 are given"
    )
    assert message(CallError, f, q) == "compute(Q, K, V): K and V are missing"
    assert message(CallError, f) == "compute(Q, K, V): Q and K and V are missing"
    assert "Q is given twice" in message(CallError, f, q, k, v, Q=q)
    assert "no input named X" in message(CallError, f, q, k, v, X=q)
    assert "no input named self" in message(CallError, f, q, k, v, self=q)
    x = sa.lambdify([sa.matrix("W^Q", d, d)], sa.matrix("W^Q", d, d) * 2)
    assert "did you mean W_Q?" in message(CallError, x, WQ=q)


# Kinds and dtypes.

RECORDS = np.zeros((3, 7), dtype=[("a", float), ("b", int)])

KINDS = {
    "list": ([[1.0]], "V is a list; give a numpy array", "np.asarray(V, dtype=np.float64)"),
    "tuple": ((1.0,), "V is a tuple", "np.asarray(V, dtype=np.float64)"),
    "text": ("v", "V is a str", "a numpy array"),
    "none": (None, "V is a NoneType", "a numpy array"),
    "number": (3.0, "V is a float", "np.asarray(V"),
    "NumPy number": (np.float64(3), "V is a float64", "np.asarray(V"),
    "matrix": (v.view(np.matrix), "V is a numpy matrix", "np.asarray(V)"),
    "masked": (np.ma.masked_array(v), "V is a masked array", "V.filled(value)"),
    "object": (v.astype(object), "Python objects (dtype object)", "V.astype(np.float64)"),
    "strings": (v.astype(str), "an array of text", "V.astype(np.float64)"),
    "bytes": (v.astype("S"), "an array of text", "V.astype(np.float64)"),
    "complex": (v + 0j, "complex numbers (dtype complex128)", "V.real"),
    "bool": (v > 0, "booleans (dtype bool)", "V.astype(np.float64)"),
    "int": (v.astype(int), "integers (dtype int64)", "V.astype(np.float64)"),
    "unsigned": (v.astype("u1"), "integers (dtype uint8)", "V.astype(np.float64)"),
    "long": (v.astype(np.longdouble), "another width", "V.astype(np.float64)"),
    "byte order": (v.astype(">f8"), "byte order (dtype >f8)", "V.astype(np.float64)"),
    "records": (RECORDS, "an array of records", "V['a']"),
    "dates": (v.astype("M8[s]"), "an array of dates", "give numbers"),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_array_of_floats(kind: str) -> None:
    value, found, fix = KINDS[kind]
    text = message(InputError, f, q, k, value)
    assert found in text
    assert fix in text
    assert "float16, float32 or float64" in text


def test_arrays_of_other_libraries_are_named() -> None:
    class Tensor:
        pass

    Tensor.__module__ = "torch"
    text = message(InputError, f, q, k, Tensor())
    assert "V is a Tensor of torch" in text
    assert "V.detach().cpu().numpy()" in text


def test_memory_maps_are_arrays(tmp_path: Any) -> None:
    mapped = np.memmap(tmp_path / "v", dtype=np.float64, mode="w+", shape=(3, 7))
    mapped[:] = v
    found = f(q, k, mapped)
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, f(q, k, v))


def test_mixed_dtypes() -> None:
    text = message(InputError, f, q.astype("f4"), k.astype("f4"), v)
    assert text == (
        "V is float64, but Q is float32; give all inputs in one dtype: V.astype(np.float32)"
    )
    B = sa.matrix("B", m, n)
    biased = sa.lambdify([Q, K, B], K.T @ Q + B)
    bias = np.zeros((7, 5))
    text = message(InputError, biased, q.astype("f4"), k.astype("f4"), bias)
    assert "B.astype(np.float32)" in text
    assert biased(q.astype("f4"), k.astype("f4"), bias.astype("f4")).dtype == np.float32


# Ranks, sizes, batches.


def test_ranks() -> None:
    text = message(InputShapeError, f, q, k, v[0])
    assert text == "V needs at least two axes, but has one\n  V (…, d_v, m) has shape (7,)"
    assert "but has none" in message(InputShapeError, f, q, k, np.asarray(1.0))
    b = sa.vector("b", d_k)
    with_vector = sa.lambdify([Q, b], Q + b @ sa.ones(1, n))
    text = message(InputShapeError, with_vector, q, np.asarray(1.0))
    assert text == "b needs at least one axis, but has none\n  b (…, d_k) has shape ()"


def test_more_axes_than_there_are_words_for() -> None:
    counts = sa.dims("a b c p q")
    F = sa.family("F", counts, n, d_k)
    indices = [sa.index(f"i_{k}", count) for k, count in enumerate(counts)]
    formula: Any = F[tuple(indices)]
    for index in indices:
        formula = sa.sum_over(formula, index)
    text = message(InputShapeError, sa.lambdify([F], formula), np.ones((2, 3)))
    assert text.startswith("F needs at least 7 axes, but has two\n")


def test_sizes_that_contradict() -> None:
    text = message(InputShapeError, f, q, k, np.ones((3, 6)))
    assert text == (
        "m = 7 from K's columns, but 6 from V's columns\n"
        "  Q (…, d_k, n) has shape (4, 5)\n"
        "  K (…, d_k, m) has shape (4, 7)\n"
        "  V (…, d_v, m) has shape (3, 6)"
    )
    b = sa.vector("b", d_k)
    with_vector = sa.lambdify([Q, b], Q + b @ sa.ones(1, n))
    text = message(InputShapeError, with_vector, q, np.ones(5))
    assert "d_k = 4 from Q's rows, but 5 from b's entries" in text


def test_transposed_arrays_are_recognised() -> None:
    text = message(InputShapeError, f, q.T, k.T, v.T)
    assert "Q has shape (5, 4), which fits Qᵀ" in text
    assert "V has shape (7, 3), which fits Vᵀ; this formula is in the column layout" in text
    row = sa.lambdify([QR, KR, VR], R)
    assert "this formula is in the row layout" in message(InputShapeError, row, q, k, v)
    only_one = message(InputShapeError, f, q, k.T, v)
    assert only_one.endswith(
        "K has shape (7, 4), which fits Kᵀ; this formula is in the column layout"
    )
    nothing_fits = message(InputShapeError, f, q, k, np.ones((3, 8)))
    assert "ᵀ" not in nothing_fits


def test_batches_that_do_not_broadcast() -> None:
    text = message(
        InputShapeError, f, np.ones((2, 3, 4, 5)), np.ones((3, 4, 7)), np.ones((4, 3, 3, 7))
    )
    assert text.startswith("the leading axes (2, 3) of Q and (4, 3) of V do not broadcast\n")
    assert "V (…, d_v, m) has shape (4, 3, 3, 7)" in text
    assert "(0,) of Q and (2,) of K" in message(
        InputShapeError, f, np.ones((0, 4, 5)), np.ones((2, 4, 7)), v
    )


def test_literal_sizes() -> None:
    three = sa.matrix("T", 3, n)
    text = message(InputShapeError, sa.lambdify([three], 2 * three), np.ones((4, 5)))
    assert "T's rows has size 4, where 3 is declared" in text


def test_products_of_tags() -> None:
    packed, one = sa.matrix("X", h * d_k, n), sa.matrix("K", d_k, n)
    one_head = sa.lambdify([packed, one], packed @ one.T)
    assert one_head(np.ones((12, 5)), np.ones((4, 5))).shape == (12, 4)
    text = message(InputShapeError, one_head, np.ones((13, 5)), np.ones((4, 5)))
    assert "= 13 from X's rows leaves a remainder" in text
    assert "with d_k = 4 (K's rows)" in text


def test_sizes_by_name() -> None:
    packed = sa.matrix("X", h * d_k, n)
    scaled = sa.lambdify([packed], packed / sa.sqrt(d_k))
    x = np.ones((12, 5))
    np.testing.assert_array_equal(scaled(x, h=3), x / 2)
    np.testing.assert_array_equal(scaled(x, d_k=4, h=3, n=5), x / 2)
    text = message(InputShapeError, scaled, x)
    assert text.startswith("not determined by the sizes at hand: ")
    assert {"d_k", "h"} == set(text.partition(": ")[2].partition(";")[0].split(", "))
    assert "12 divided by 5 leaves 2" in message(InputShapeError, scaled, x, h=5)
    assert "n = 6 from the sizes given, but 5" in message(InputShapeError, scaled, x, h=3, n=6)
    for wrong in (True, 2.0, "3", -3):
        assert "h must be a non-negative integer" in message(sa.SizeError, scaled, x, h=wrong)
    by_one = message(InputShapeError, scaled, x)
    assert "; give h by name, and the rest follows" in by_one
    constant = sa.lambdify([], 2 * sa.ones(n, m))
    assert constant(n=2, m=3).tolist() == [[2.0] * 3] * 2
    assert "n, m; give each by name" in message(InputShapeError, constant)


def test_relations_of_the_formula() -> None:
    with sa.assuming("m = n"):
        square = sa.matrix("A", d, m) @ sa.matrix("B", n, d)
    run = sa.lambdify([sa.matrix("A", d, m), sa.matrix("B", n, d)], square)
    assert run(np.ones((2, 3)), np.ones((3, 2))).tolist() == [[3.0, 3.0], [3.0, 3.0]]
    text = message(InputShapeError, run, np.ones((2, 3)), np.ones((4, 2)))
    assert "the relation" in text
    assert "m = 3 (A's columns)" in text
    assert "n = 4 (B's rows)" in text


def test_a_maximum_of_nothing() -> None:
    S = sa.matrix("S", m, n)
    largest = sa.lambdify([S], sa.max(S, axis=0))
    assert largest(np.array([[1.0, 5], [4, 2], [3, 3]])).tolist() == [[4.0, 5.0]]
    text = message(sa.SizeError, largest, np.ones((0, 5)))
    assert "m = 0" in text
    assert "a maximum of nothing" in text


# Scalars.


def test_scalars_are_finite_real_numbers() -> None:
    scaled = sa.lambdify([Q, c], Q * c)
    for value in (2, 2.0, np.float32(2), np.int8(2), Fraction(2)):
        np.testing.assert_array_equal(scaled(q, value), 2 * q)
        np.testing.assert_array_equal(scaled(q, c=value), 2 * q)
    for value in (True, np.True_, "2", None, 2j, [2], np.ones((1, 1))):
        assert "c is a" in message(InputError, scaled, q, value)
    assert "float(c)" in message(InputError, scaled, q, np.asarray(2.0))
    for value in (math.inf, -math.inf, math.nan, 10**400):
        assert "give a finite real number" in message(InputError, scaled, q, value)


def test_scalars_that_cannot_be_computed() -> None:
    over = sa.lambdify([Q, c], sa.tanh(Q / c))
    assert message(ScalarError, over, q, 0.0).endswith("it divides by zero, with c = 0.0")
    root = sa.lambdify([Q, c], sympy.sqrt(c) * Q)
    assert "no finite real number, with c = -1.0" in message(ScalarError, root, q, -1)
    large = sa.lambdify([Q, c], sa.exp(c) * Q)
    assert "no finite real number, with c = 1000.0" in message(ScalarError, large, q, 1000)
    positive = sa.lambdify([Q, tau], Q / tau)
    assert "tau is 0.0; give a positive number" in message(InputError, positive, q, 0)


def test_no_error_shows_what_is_in_an_array() -> None:
    secret = np.full((3, 6), 271828.125)
    for bad in (secret, secret.astype(int), secret.tolist(), secret.astype("f4")):
        assert "271828" not in message(sa.SymattnError, f, q, k, bad)


def test_an_earlier_call_lets_in_only_its_like() -> None:
    for _ in range(3):
        assert f(q, k, v).shape == (3, 5)
    message(InputError, f, q, k, v.astype("f4"))
    message(InputError, f, q, k, v.astype(">f8"))
    message(InputError, f, q, k, np.ma.masked_array(v))
    message(InputError, f, q, k, v.tolist())
    message(InputShapeError, f, q, k.T, v)
    message(CallError, f, q, k)
    message(CallError, f, q, k, v, v)
    message(CallError, f, q, k, v, K=k)


@pytest.mark.parametrize(("dtype", "factor"), [(np.float16, 1e39), (np.float32, 1e39)])
def test_a_scalar_beyond_the_dtype_is_refused(dtype: Any, factor: float) -> None:
    c = sa.scalar("c")
    f = sa.lambdify([Q, c], c * Q / 7)
    array = np.ones((4, 5), dtype)
    assert f(array, 2.0).dtype == dtype
    assert "larger than the dtype can hold" in message(ScalarError, f, array, factor)


def test_a_bias_of_positions_that_divides_by_zero() -> None:
    by_size = sa.lambdify([], sa.positional(lambda i, j: (i - j) / n, n, m))
    by_scalar = sa.lambdify([], sa.positional(lambda i, j: (i - j) / c, n, m))
    assert message(ScalarError, by_size, n=0, m=2).endswith("it divides by zero, with n = 0")
    assert message(ScalarError, by_scalar, n=2, m=2, c=0).endswith("with c = 0.0")
    differences = np.array([[0.0, 1.0], [-1.0, 0.0], [-2.0, -1.0]])  # keys j by queries i
    np.testing.assert_array_equal(by_size(n=2, m=3), differences / 2)
    np.testing.assert_array_equal(by_scalar(n=2, m=3, c=-4), differences / -4)


def test_a_size_that_is_text_is_shown_as_text() -> None:
    X = sa.matrix("X", "n", "n")
    f = sa.lambdify([X], X @ sa.ones("n", "h") @ sa.ones("h", "n"))
    with pytest.raises(sa.SizeError, match="but is '3'"):
        f(np.ones((2, 2)), h="3")
