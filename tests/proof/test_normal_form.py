"""The normal form on index forms: what it has to decide, and what it must keep apart."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import pytest

from symattn.meaning.form import (
    Add,
    Allowed,
    Apply,
    AtMost,
    Both,
    Entry,
    Extent,
    Form,
    Index,
    Maximum,
    Mul,
    Not,
    Number,
    Parameter,
    Position,
    Power,
    Same,
    Softmax,
    Sum,
    Truth,
    reciprocal,
)
from symattn.proof.normal import compare
from symattn.tags import Relations, Size, parse_size


def index(size: str) -> Index:
    return Index(parse_size(size))


def entry(name: str, *axes: tuple[str, Index | Sequence[Index]]) -> Entry:
    sizes = tuple(parse_size(size) for size, _ in axes)
    at = tuple((place,) if isinstance(place, Index) else tuple(place) for _, place in axes)
    return Entry(name, sizes, at)


def negative(form: Form) -> Form:
    return Mul((Number(Fraction(-1)), form))


def exp(*terms: Form) -> Form:
    return Apply("exp", Add(terms))


def equal(left: Form, right: Form, *free: Index, given: str = "") -> bool | None:
    relations = Relations().declare(given) if given else Relations()
    return compare((left, right), free, relations).equal


def test_the_diagonal_of_a_softmax_reads_the_bound_axis_at_a_free_index() -> None:
    i, t, u = index("n"), index("n"), index("n")

    def s(row: Index, column: Index) -> Entry:
        return entry("s", ("n", row), ("n", column))

    diagonal = Softmax(t, s(i, t), (i,))
    written_out = Mul((exp(s(i, i)), reciprocal(Sum(u, exp(s(i, u))))))
    captured = Mul((exp(s(i, i)), reciprocal(Sum(u, exp(s(u, u))))))
    assert equal(diagonal, written_out, i)
    assert not equal(diagonal, captured, i)


def head_weights(a: Index, query: Index, key: Index) -> Form:
    """One head's attention weights: queries and keys are slices of packed projections of X."""

    def projected(weight: str, token: Index, feature: Index) -> Form:
        c = index("d")
        x = entry("X", ("n", token), ("d", c))
        return Sum(c, Mul((x, entry(weight, ("d", c), ("h*d_k", (a, feature))))))

    t, f = index("n"), index("d_k")
    root = Power(Extent(Size.tag("d_k")), Fraction(-1, 2))
    score = Mul((Sum(f, Mul((projected("Q", query, f), projected("K", t, f)))), root))
    return Softmax(t, score, (key,))


def test_packed_heads_are_heads_one_by_one_for_any_number_of_heads() -> None:
    i, o = index("n"), index("d")
    a, r, j, c = index("h"), index("d_k"), index("n"), index("d")
    value = Sum(c, Mul((entry("X", ("n", j), ("d", c)), entry("V", ("d", c), ("d_model", (a, r))))))
    head = Sum(j, Mul((head_weights(a, i, j), value)))
    one_by_one = Sum(a, Sum(r, Mul((head, entry("W_O", ("h*d_k", (a, r)), ("d", o))))))

    b, s, k, e = index("h"), index("d_k"), index("n"), index("d")
    mixed = Sum(k, Mul((entry("X", ("n", k), ("d", e)), head_weights(b, i, k))))
    context = Sum(e, Mul((mixed, entry("V", ("d", e), ("h*d_k", (b, s))))))
    packed = Sum(s, Sum(b, Mul((entry("W_O", ("d_model", (b, s)), ("d", o)), context))))
    assert equal(one_by_one, packed, i, o, given="d_model = h*d_k")
    tile_order = Sum(s, Sum(b, Mul((entry("W_O", ("d_model", (s, b)), ("d", o)), context))))
    assert equal(one_by_one, tile_order, i, o, given="d_model = h*d_k") is None


def test_a_flat_axis_is_split_where_the_other_side_reads_it_by_heads() -> None:
    i, o, p, a, r = index("n"), index("e"), index("d_model"), index("h"), index("d_k")
    flat = Sum(p, Mul((entry("Y", ("n", i), ("d_model", p)), entry("W", ("d_model", p), ("e", o)))))
    split = Sum(
        a,
        Sum(
            r,
            Mul(
                (
                    entry("W", ("h*d_k", (a, r)), ("e", o)),
                    entry("Y", ("n", i), ("h*d_k", (a, r))),
                )
            ),
        ),
    )
    assert equal(flat, split, i, o, given="d_model = h*d_k")
    assert not equal(flat, split, i, o)


def block(name: str, size: str, shift: Form, i: Index, v: Index) -> tuple[Form, Form]:
    """Return (l, o) of one block of keys: Σ e^{s - shift} and Σ e^{s - shift} v."""

    def weight(j: Index) -> Form:
        return exp(entry("S" + name, ("n", i), (size, j)), negative(shift))

    j, k = index(size), index(size)
    return Sum(j, weight(j)), Sum(k, Mul((weight(k), entry("V" + name, (size, k), ("d_v", v)))))


def merged(*blocks: tuple[Form, Form, Form], shift: Form) -> tuple[Form, Form]:
    """Merge blocks (shift, l, o) to one shift: the step of an online softmax."""
    factors = [exp(old, negative(shift)) for old, _, _ in blocks]
    weight = Add(tuple(Mul((f, l)) for f, (_, l, _) in zip(factors, blocks, strict=True)))
    output = Add(tuple(Mul((f, o)) for f, (_, _, o) in zip(factors, blocks, strict=True)))
    return weight, output


def test_two_blocks_merge_for_any_finite_shifts() -> None:
    i, v = index("n"), index("d_v")
    one, other, final = (entry(c, ("n", i)) for c in ("a", "b", "c"))
    l1, o1 = block("1", "m_1", one, i, v)
    l2, o2 = block("2", "m_2", other, i, v)
    weight, output = merged((one, l1, o1), (other, l2, o2), shift=final)
    zero = Number(Fraction(0))
    plain1, plain2 = block("1", "m_1", zero, i, v), block("2", "m_2", zero, i, v)
    exact = Mul((Add((plain1[1], plain2[1])), reciprocal(Add((plain1[0], plain2[0])))))
    assert equal(Mul((output, reciprocal(weight))), exact, i, v)
    unscaled = Mul((Add((o1, o2)), reciprocal(Add((l1, l2)))))
    assert not equal(unscaled, exact, i, v)


def test_merging_blocks_is_associative() -> None:
    i, v = index("n"), index("d_v")
    shifts = [entry(c, ("n", i)) for c in "abc"]
    blocks = [
        (shift, *block(str(k), f"m_{k}", shift, i, v)) for k, shift in enumerate(shifts, start=1)
    ]
    p, q, final = (entry(c, ("n", i)) for c in "pqr")
    left = merged((p, *merged(*blocks[:2], shift=p)), blocks[2], shift=final)
    right = merged(blocks[0], (q, *merged(*blocks[1:], shift=q)), shift=final)
    assert equal(left[0], right[0], i)
    assert equal(left[1], right[1], i, v)
    quotients = [Mul((output, reciprocal(weight))) for weight, output in (left, right)]
    assert equal(quotients[0], quotients[1], i, v)


def causal(i: Index, j: Index) -> AtMost:
    return AtMost(Position((j,)), Position((i,)))


def test_a_mask_is_a_condition_and_shift_invariance_holds_under_it() -> None:
    i, j, t, u = index("n"), index("m"), index("m"), index("m")
    s, c = (lambda k: entry("s", ("n", i), ("m", k))), entry("c", ("n", i))
    plain = Softmax(t, s(t), (j,), causal(i, t))
    shifted = Softmax(u, Add((s(u), c)), (j,), causal(i, u))
    assert equal(plain, shifted, i, j)
    unmasked = Softmax(u, s(u), (j,))
    assert not equal(plain, unmasked, i, j)
    # What is masked gets no weight, however it is asked.
    after = Mul((Truth(causal(i, j)), plain))
    assert equal(plain, after, i, j)
    anti = Softmax(u, s(u), (j,), Not(causal(i, u)))
    assert not equal(plain, anti, i, j)


def test_conditions_are_boolean_algebra() -> None:
    i, j = index("n"), index("m")
    keep = Allowed("keep", (parse_size("n"), parse_size("m")), ((i,), (j,)))
    both = Both(keep, causal(i, j))
    assert equal(Truth(both), Mul((Truth(causal(i, j)), Truth(keep))), i, j)
    assert equal(Truth(Not(Not(both))), Truth(both), i, j)
    assert equal(Truth(Both(keep, Not(keep))), Number(Fraction(0)), i, j)
    # [j ≤ i] and [i + 1 ≤ j] exclude each other and exhaust: positions are whole numbers.
    later = AtMost(Add((Position((i,)), Number(Fraction(1)))), Position((j,)))
    total = Add((Truth(causal(i, j)), Truth(later)))
    assert equal(total, Number(Fraction(1)), i, j)


def test_a_condition_of_equality_selects() -> None:
    i, j, k = index("n"), index("n"), index("n")
    x = lambda at: entry("x", ("n", at))  # noqa: E731
    assert equal(Sum(k, Mul((Truth(Same((i,), (k,))), x(k)))), x(i), i)
    assert equal(Mul((Truth(Same((i,), (j,))), x(i))), Mul((Truth(Same((i,), (j,))), x(j))), i, j)
    assert not equal(Truth(Same((i,), (j,))), Number(Fraction(1)), i, j)


def test_an_unused_index_counts() -> None:
    j, c = index("m"), Parameter("c")
    assert equal(Sum(j, c), Mul((Extent(Size.tag("m")), c)))
    assert equal(Sum(j, Number(Fraction(1))), Extent(Size.tag("n")), given="m = n")
    assert not equal(Sum(j, c), c)


def test_the_maximum_moves_with_what_is_constant_along_its_axis() -> None:
    i, j, k = index("n"), index("m"), index("m")
    s, c = (lambda at: entry("s", ("n", i), ("m", at))), entry("c", ("n", i))
    shifted = Maximum(j, Add((s(j), c)))
    assert equal(shifted, Add((Maximum(k, s(k)), c)), i)
    two = Number(Fraction(2))
    assert equal(Maximum(j, Mul((two, s(j)))), Mul((two, Maximum(k, s(k)))), i)
    assert not equal(Maximum(j, negative(s(j))), negative(Maximum(k, s(k))), i)


def test_symmetric_and_antisymmetric_bodies() -> None:
    i, j = index("n"), index("n")

    def gram(row: Index, column: Index) -> Form:
        c = index("d")
        return Sum(c, Mul((entry("X", ("n", row), ("d", c)), entry("X", ("n", column), ("d", c)))))

    assert equal(gram(i, j), gram(j, i), i, j)
    assert equal(exp(gram(i, j)), exp(gram(j, i)), i, j)
    a = lambda r, c: entry("A", ("n", r), ("n", c))  # noqa: E731
    skew = lambda r, c: Apply("tanh", Add((a(r, c), negative(a(c, r)))))  # noqa: E731
    assert equal(skew(i, j), negative(skew(j, i)), i, j)
    assert not equal(skew(i, j), skew(j, i), i, j)
    # The sum of an antisymmetric body over one index is antisymmetric in nothing else.
    k, u = index("n"), index("n")
    assert equal(Sum(k, skew(i, k)), negative(Sum(u, skew(u, i))), i)


@pytest.mark.parametrize("length", [3, 5, 9])
def test_cycles_of_equal_factors_stay_cheap(length: int) -> None:
    def cycle(order: Sequence[int]) -> Form:
        at = [index("n") for _ in range(length)]
        edges = [entry("A", ("n", at[k]), ("n", at[(k + 1) % length])) for k in range(length)]
        body: Form = Mul(tuple(edges[k] for k in order))
        for bound in at:
            body = Sum(bound, body)
        return body

    order = [(k * 2) % length for k in range(length)]
    assert sorted(order) == list(range(length))
    assert equal(cycle(range(length)), cycle(order))


def test_a_budget_is_counted_and_the_answer_is_undecided() -> None:
    names = [Parameter(f"x{k}") for k in range(9)]
    big = Power(Add(tuple(names)), Fraction(12))
    result = compare((big, Mul((big, Number(Fraction(1))))), ())
    assert result.equal is None
    assert "budget" in result.reason


def test_what_is_divided_by_is_listed_unless_it_is_certainly_positive() -> None:
    i, j = index("n"), index("m")
    x = entry("x", ("n", i))
    result = compare((Mul((x, reciprocal(x))), Number(Fraction(1))), [i])
    assert result.equal
    assert result.conditions == ("x[i] ≠ 0",)
    total = Sum(j, exp(entry("s", ("n", i), ("m", j))))
    assert compare((Mul((total, reciprocal(total))), Number(Fraction(1))), [i]).conditions == ()
    root = Power(Power(x, Fraction(2)), Fraction(1, 2))
    assert not compare((root, x), [i]).equal
    never = reciprocal(Add((x, negative(x))))
    assert compare((never, never), [i]).equal is None
