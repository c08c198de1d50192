"""Sizes, their grammar, relations and the solver, against integers: the numbers they stand for."""

from __future__ import annotations

import contextlib
import copy
import itertools
import pickle
import subprocess
import sys
import time

import pytest
from hypothesis import assume, given, settings, strategies as st

from symattn.errors import RelationError, SizeError, SizeSyntaxError, UnknownNameError
from symattn.tags import (
    Equation,
    Quotient,
    Relations,
    Size,
    check_size,
    check_tag_name,
    named,
    nearest,
    parse_size,
    solve,
)
from symattn.tags.grammar import as_size, parse_sizes

TAGS: tuple[str, ...] = ("h", "d_k", "d_v", "n", "m")

# -- strategies

sizes_of_tags = st.fixed_dictionaries({tag: st.integers(1, 9) for tag in TAGS})
atoms = st.one_of(st.sampled_from(TAGS).map(Size.tag), st.integers(0, 4).map(Size.of))
polynomials = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds(Size.__add__, inner, inner),
        st.builds(Size.__sub__, inner, inner),
        st.builds(Size.__mul__, inner, inner),
    ),
    max_leaves=6,
)


def quotient(num: Size, den: Size) -> Size:
    """num//den, or num where that division is no size."""
    try:
        return num // den
    except SizeError:
        return num


with_quotients = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds(Size.__add__, inner, inner),
        st.builds(Size.__mul__, inner, inner),
        st.builds(quotient, inner, inner),
    ),
    max_leaves=6,
)


# -- sizes


@given(polynomials, polynomials, sizes_of_tags)
def test_arithmetic_is_that_of_the_numbers(a: Size, b: Size, sizes: dict[str, int]) -> None:
    x, y = a.value(sizes), b.value(sizes)
    assert (a + b).value(sizes) == x + y
    assert (a - b).value(sizes) == x - y
    assert (a * b).value(sizes) == x * y
    assert (-a).value(sizes) == -x
    assert (a**2).value(sizes) == x**2


@given(polynomials, polynomials, polynomials)
def test_polynomial_identities(a: Size, b: Size, c: Size) -> None:
    assert a + b == b + a
    assert a * b == b * a
    assert a * (b + c) == a * b + a * c
    assert a - a == Size.of(0)
    assert hash(a * (b + c)) == hash(c * a + b * a)
    if b != Size.of(0):
        assert a * b // b == a


@given(polynomials, polynomials)
def test_equal_exactly_if_equal_at_enough_points(a: Size, b: Size) -> None:
    # Degrees stay below 7 here, so powers of 100 for the tags tell any two polynomials apart.
    apart = {tag: 10_000_019 ** (8**k) for k, tag in enumerate(TAGS)}
    assert (a == b) == (a.value(apart) == b.value(apart))


@given(with_quotients, with_quotients, sizes_of_tags)
def test_quotients_keep_the_value(a: Size, b: Size, sizes: dict[str, int]) -> None:
    try:
        x, y = a.value(sizes), b.value(sizes)
        total, both = (a + b).value(sizes), (a * b).value(sizes)
    except SizeError:  # a remainder at these sizes
        assume(False)
        raise
    assert (total, both) == (x + y, x * y)
    assert a + b - b == a
    assert hash(a + b - b) == hash(a)


@given(with_quotients)
def test_text_reads_back(size: Size) -> None:
    assert parse_size(str(size)) == size
    assert hash(parse_size(str(size))) == hash(size)


@given(with_quotients)
def test_copies_are_equal(size: Size) -> None:
    for twin in (copy.copy(size), copy.deepcopy(size), pickle.loads(pickle.dumps(size))):
        assert twin == size
        assert hash(twin) == hash(size)


@given(polynomials, polynomials, sizes_of_tags)
def test_substitution_then_value(a: Size, b: Size, sizes: dict[str, int]) -> None:
    assert a.substitute({"n": b}).value(sizes) == a.value({**sizes, "n": b.value(sizes)})


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("h*(d_k+d_v)", "h*d_k+h*d_v"),
        ("(h*d_k)//h", "d_k"),
        ("(n+m)^2", "n**2 + 2*n*m + m*m"),
        ("h*(d_model//h)", "d_model"),
        ("(h+1)*(n//(h+1))", "n"),
        ("n//2 + n//2", "n"),
        ("h*(h//n)+n*(h//n)", "h*(h//n)+h"),
        ("(2*n)//(4*m)", "n//(2*m)"),
        ("d_model//h//2", "d_model//(2*h)"),
        ("n//m + h//m", "(n+h)//m"),
        ("(n*n - m*m)//(n-m)", "n+m"),
        ("(a*b+a*c)//(h*b+h*c)", "a//h"),
        ("d_{k}", "d_k"),
        ("n′", "n'"),
        ("e\u0301", "\u00e9"),
        ("- n + m", "m-n"),
        ("12//4", "3"),
        ("\u2126", "Ω"),
    ],
)
def test_equal(text: str, same: str) -> None:
    assert parse_size(text) == parse_size(same)
    assert hash(parse_size(text)) == hash(parse_size(same))


@pytest.mark.parametrize(
    ("left", "right"),
    [("n", "m"), ("n", "2*n"), ("h*d_k", "h*d_v"), ("n", "n'"), ("n//h", "n"), ("n//h", "m//h"),
     ("n-m", "m-n"), ("n+1", "n"), ("d_k", "dk"), ("1", "n")],
)  # fmt: skip
def test_not_equal(left: str, right: str) -> None:
    assert parse_size(left) != parse_size(right)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("d_k*h", "h*d_k"),
        ("m*2*n", "2*m*n"),
        ("1 + n + n*n", "n^2+n+1"),
        ("-n+m", "m-n"),
        ("-n", "-n"),
        ("0*n", "0"),
        ("n*(d//h)", "n*(d//h)"),
        ("d//h", "d//h"),
        ("(d+1)//(2*h)", "(d+1)//(2*h)"),
        ("(d//h)^2", "(d//h)^2"),
        ("3-2*n", "3-2*n"),
        ("h*(h//n)+n*(h//n)", "h*(h//n)+h"),
    ],
)
def test_shown(written: str, shown: str) -> None:
    assert str(parse_size(written)) == shown


def test_looking_inside() -> None:
    size = parse_size("n*(d_model//h) + 3")
    assert size.tags == ("n", "d_model", "h")
    assert size.assumptions == ((Size.tag("h"), Size.tag("d_model")),)
    atom = Quotient(Size.tag("d_model"), Size.tag("h"))
    assert size.terms == ((1, (("n", 1), (atom, 1))), (3, ()))
    assert parse_size("h*d_k//h").assumptions == ()


@pytest.mark.parametrize(
    ("text", "constant"), [("3", 3), ("0", 0), ("n", None), ("3-n", None), ("n-n+1", 1)]
)
def test_constant(text: str, constant: int | None) -> None:
    assert parse_size(text).constant == constant
    assert parse_size(text).is_one == (constant == 1)


def test_division_that_leaves_a_remainder() -> None:
    with pytest.raises(SizeError, match=r"13 divided by 4 leaves a remainder"):
        parse_size("d//h").value({"d": 13, "h": 4})
    with pytest.raises(SizeError, match="divides by zero"):
        parse_size("d//h").value({"d": 0, "h": 0})
    with pytest.raises(SizeError, match="divides by zero"):
        _ = Size.tag("n") // 0
    with pytest.raises(SizeError, match="the size of h is not known"):
        parse_size("d//h").value({"d": 12})


@pytest.mark.parametrize("value", [True, 0, -3, 2.0, "5", None, [5], 1j])
def test_what_is_no_size_is_refused_by_name(value: object) -> None:
    with pytest.raises(SizeError, match=r"^n must be a positive integer, but is ") as caught:
        check_size("n", value)
    assert caught.value.tags == ("n",)


def test_other_integers_are_taken() -> None:
    class Count:
        def __index__(self) -> int:
            return 7

    assert check_size("n", Count()) == 7
    assert check_size("n", 0, least=0) == 0
    assert as_size(-2) == Size.of(-2)


# -- the grammar


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("__import__('os')", 0),
        ("os.system('x')", 2),
        ("n if m else 1", 2),
        ("lambda: 0", 6),
        ("n[0]", 1),
        ("2n", 1),
        ("", 0),
        ("n+", 2),
        ("(n", 2),
        ("n)", 1),
        ("n^m", 2),
        ("n^-1", 2),
        ("n^17", 2),
        ("n^16*n", 4),
        ("n = m", 2),
        ("n / m", 2),
        ("n @ m", 2),
        ("ж", 0),
        ("d_{k", 4),
        ("d_{}", 3),
        ("d_{k}x", 5),
        ("n\u0000", 1),
        ("n + 5//2", 5),
        ("n//(m-m)", 1),
        ("1.5", 1),
        ("9" * 16, 0),
        ("(" * 190 + "n", 16),
        ("n*" * 100 + "n", 200),
        ("(a+b+c+d)^16", 0),
    ],
)
def test_what_is_not_in_the_grammar_is_pointed_at(text: str, position: int) -> None:
    with pytest.raises(SizeSyntaxError) as caught:
        parse_size(text)
    error = caught.value
    assert error.position == position
    _, line, caret = str(error).split("\n")
    shown = line[len(caret) - 1 : len(caret)]
    assert shown.strip() == text[position : position + 1].replace("\u0000", "�").strip()


@given(st.text(st.sampled_from("nmh_{}()'^*/+- =,0123456789\n°λ"), max_size=60) | st.text())
def test_reading_always_ends_in_a_size_or_a_syntax_error(text: str) -> None:
    for reading in (parse_size, parse_sizes, check_tag_name):
        with contextlib.suppress(SizeSyntaxError):
            reading(text)
    with contextlib.suppress(SizeSyntaxError, RelationError):
        Relations().declare(text)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("a^16//(a-b-c-d-e-f-g-h)", True),
        ("(x//(a+b+c+d+e+f))^16", False),
        ("+".join(f"{c}//({c}{c}+1)" for c in "abcdefghijklm"), False),
        ("((((a+b)^16+c)^16+d)^16)^16", False),
        ("-" * 200, False),
        ("a//b+" * 39 + "a", True),
    ],
)
def test_a_short_text_cannot_ask_for_long_work(text: str, read: bool) -> None:
    start = time.process_time()
    try:
        parse_size(text)
        done = True
    except SizeSyntaxError:
        done = False
    assert done == read
    assert time.process_time() - start < 3


def test_short_relations_cannot_ask_for_long_work() -> None:
    start = time.process_time()
    with pytest.raises(SizeError, match="grows beyond"):
        Relations().declare("b = a+1, c = b^16, d = c^16, e = d^16")
    assert time.process_time() - start < 3


def test_side_by_side() -> None:
    expected = tuple(map(parse_size, ("h*d_k", "n+1", "m", "2")))
    assert parse_sizes(" h * d_k, n + 1 (m)  2 ") == expected
    assert parse_sizes("") == ()
    with pytest.raises(SizeSyntaxError):
        parse_sizes("d_k,,n")
    with pytest.raises(SizeSyntaxError):
        parse_sizes("2n")


@pytest.mark.parametrize(
    ("name", "tag"),
    [("n", "n"), ("d_{model}", "d_model"), ("λ", "λ"), ("n''", "n''"), ("x2", "x2")],
)
def test_tag_names(name: str, tag: str) -> None:
    assert check_tag_name(name) == tag


@pytest.mark.parametrize("name", ["", "2", "n m", "n+1", " n", "_n", "ж", "n\n", "{n}", "n^2", "ℓ"])
def test_what_is_no_tag_name(name: str) -> None:
    with pytest.raises(SizeSyntaxError):
        check_tag_name(name)


# -- relations


@pytest.mark.parametrize(
    ("declared", "kept"),
    [
        ("d_model = h*d_k", "d_model = h*d_k"),
        ("h*d_k = d_model", "d_model = h*d_k"),
        ("d_k = d_model//h", "d_model = h*d_k"),
        ("m = n", "m = n"),
        ("n = m", "n = m"),
        ("h*d_k = h*d_v", "d_k = d_v"),
        ("(h+1)*d_k = (h+1)*d_v", "d_k = d_v"),
        ("n = m - 1", "m = n+1"),
        ("n = 2*m - 1", "n = 2*m-1"),
        ("2*n = 4", "n = 2"),
        ("m = 1", "m = 1"),
        ("n = n", ""),
        ("m = n, n = m", "m = n"),
        ("a = b, b = c", "a = c, b = c"),
        ("b = c, a = b", "a = c, b = c"),
        ("x*z = y*w, x = y", "x = y, z = w"),
        ("d = h*k; d = 2*h", "d = 2*h, k = 2"),
        ("a = n\nn = a*b\n", "a = n, b = 1"),
    ],
)
def test_declared(declared: str, kept: str) -> None:
    relations = Relations().declare(declared)
    assert relations.text() == kept
    assert Relations().declare(kept) == relations
    assert bool(relations) == bool(kept)
    assert hash(Relations().declare(kept)) == hash(relations)


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ("n = n+1", "no sizes of at least 1"),
        ("n = 0", "no sizes of at least 1"),
        ("n = -2", "no sizes of at least 1"),
        ("n + m = 1", "no sizes of at least 1"),
        ("n = n*m + 1", "no sizes of at least 1"),
        ("2*n = 3", "not a multiple of 2"),
        ("2*n = 4*m + 1", "not a multiple of 2"),
        ("n = 2, n = 3", "it is 2 = 3"),
        ("a = b+1, b = a+1", "no sizes of at least 1"),
        ("n*m = 2", "does not give one tag"),
        ("n^2 = 4", "does not give one tag"),
        ("n*m = h*d", "does not give one tag"),
        ("n = m*(n-1)", "does not give one tag"),
    ],
)
def test_refused(declared: str, why: str) -> None:
    with pytest.raises(RelationError, match=why) as caught:
        Relations().declare(declared)
    assert type(caught.value) is RelationError
    assert type(pickle.loads(pickle.dumps(caught.value))) is RelationError


def test_a_pair_is_a_relation_too() -> None:
    assert Relations().declare(("m", 2)).declare((Size.tag("n"), "m")).text() == "m = 2, n = 2"


def test_needed_is_the_least_that_is_needed() -> None:
    relations = Relations().declare("d_model = h*d_k, m = n, d_v = d_k")
    both = parse_size("h*d_k*n"), parse_size("d_model*m")
    needed = relations.needed(*both)
    assert needed is not None
    assert needed.text() == "d_model = h*d_k, m = n"
    same = relations.needed(parse_size("m+d_v"), parse_size("d_v+m"))
    assert same is not None
    assert not same
    assert relations.needed(parse_size("n"), parse_size("h")) is None
    exact = relations.needed(parse_size("d_model//h"), parse_size("d_k"))
    assert exact is not None
    assert [tag for tag, _ in exact] == ["d_model"]


def test_merge() -> None:
    left, right = Relations().declare("m = n"), Relations().declare("n = k, d = 2*m")
    assert left.merge(right).text() == "d = 2*k, m = k, n = k"
    assert right.merge(left) == left.merge(right)
    assert left.merge(left) == Relations().merge(left) == left.merge(Relations()) == left
    with pytest.raises(RelationError):
        Relations().declare("n = 2").merge(Relations().declare("n = 3"))


relation_sides = st.tuples(
    st.sampled_from(TAGS).map(Size.tag),
    st.recursive(
        st.one_of(st.sampled_from(TAGS).map(Size.tag), st.integers(1, 3).map(Size.of)),
        lambda inner: st.one_of(
            st.builds(Size.__add__, inner, inner), st.builds(Size.__mul__, inner, inner)
        ),
        max_leaves=3,
    ),
)


@settings(max_examples=60)
@given(st.lists(relation_sides, min_size=1, max_size=3), polynomials, polynomials)
def test_relations_are_the_equations_declared(
    declared: list[tuple[Size, Size]], a: Size, b: Size
) -> None:
    relations = Relations()
    try:
        for pair in declared:
            relations = relations.declare(pair)
    except RelationError:
        return  # whether rightly so is the next test's question
    lefts = {tag for tag, _ in relations}
    assert not any(set(size.tags) & lefts for _, size in relations)
    for values in itertools.product((1, 2, 3, 4), repeat=len(TAGS)):
        sizes: dict[str, int] = dict(zip(TAGS, values, strict=True))
        said = all(left.value(sizes) == right.value(sizes) for left, right in declared)
        kept = all(sizes[tag] == size.value(sizes) for tag, size in relations)
        assert said == kept
        if said:
            assert relations.rewrite(a).value(sizes) == a.value(sizes)
    assert relations.rewrite(relations.rewrite(a)) == relations.rewrite(a)
    # The set can be satisfied: the free tags as one likes, the others at least 1.
    free = {tag: k + 1 for k, tag in enumerate(TAGS) if tag not in lefts}
    assert all(size.value(free) >= 1 for _, size in relations)
    equal = relations.rewrite(a) == relations.rewrite(b)
    # The order in which they were declared, and the way round, change no decision.
    for other in itertools.permutations(declared):
        try:
            again = Relations()
            for left, right in other:
                again = again.declare((right, left))
        except RelationError:
            continue
        assert (again.rewrite(a) == again.rewrite(b)) == equal
    needed = relations.needed(a, b)
    assert (needed is not None) == equal
    if needed is not None:
        assert needed.rewrite(a) == needed.rewrite(b)


@given(relation_sides)
def test_what_is_called_unsatisfiable_is(pair: tuple[Size, Size]) -> None:
    try:
        Relations().declare(pair)
    except RelationError as error:
        assume("satisf" in error.reason)
        for values in itertools.product([1, 2, 3], repeat=len(TAGS)):
            sizes: dict[str, int] = dict(zip(TAGS, values, strict=True))
            assert pair[0].value(sizes) != pair[1].value(sizes)


# -- the solver


def solved(*equations: tuple[str, int, str], **known: int) -> dict[str, int]:
    return solve([Equation(parse_size(s), v, where) for s, v, where in equations], known)


@given(
    st.fixed_dictionaries({tag: st.integers(1, 99) for tag in TAGS}),
    st.permutations(["h*d_k", "d_k", "h*(d_k+d_v)", "n+m", "n-m+99", "n^2*h", "(h*d_v*n)//n"]),
)
def test_the_solver_finds_the_sizes_in_any_order(sizes: dict[str, int], texts: list[str]) -> None:
    found = solved(*((t, parse_size(t).value(sizes), f"axis of {t}") for t in texts))
    assert found == sizes


@pytest.mark.parametrize(
    ("equations", "known", "found"),
    [
        ([("h*d_k", 12), ("h", 3)], {}, {"h": 3, "d_k": 4}),
        ([("h*d_k", 0)], {"h": 3}, {"h": 3, "d_k": 0}),
        ([("h*d_k", 0), ("h", 0), ("d_k", 7)], {}, {"h": 0, "d_k": 7}),
        ([("n+m", 5), ("n-m", 1)], {}, {"n": 3, "m": 2}),
        ([("n*m+n", 6), ("n*m", 4)], {}, {"n": 2, "m": 2}),
        ([("n^2", 49)], {}, {"n": 7}),
        ([("n^2+n", 30)], {}, {"n": 5}),
        ([("d//h", 3), ("h", 4)], {}, {"d": 12, "h": 4}),
        ([("d//h", 3), ("d", 12)], {}, {"d": 12, "h": 4}),
        ([("(n+1)//2", 3)], {}, {"n": 5}),
        ([("n", 2**70)], {}, {"n": 2**70}),
        ([("3", 3)], {}, {}),
        ([], {"n": 2}, {"n": 2}),
    ],
)
def test_solved(
    equations: list[tuple[str, int]], known: dict[str, int], found: dict[str, int]
) -> None:
    for order in itertools.permutations(equations):
        assert solved(*((s, v, f"axis {s}") for s, v in order), **known) == found


@pytest.mark.parametrize(
    ("equations", "known", "message"),
    [
        ([("n", 5, "K's columns"), ("n", 7, "V's columns")], {},
         "n = 5 from K's columns, but 7 from V's columns"),
        ([("n", 7, "V's columns")], {"n": 5},
         "n = 5 from the sizes given, but 7 from V's columns"),
        ([("h*d_k", 13, "W's rows"), ("h", 3, "X's rows")], {},
         "h*d_k = 13 from W's rows leaves a remainder: "
         "13 divided by 3 leaves 1, with h = 3 (X's rows)"),
        ([("h*d_k", 13, "W's rows"), ("h", 3, "X's rows"), ("d_k", 4, "K's rows")], {},
         "h*d_k = 13 from W's rows, but 12 from h = 3 (X's rows), d_k = 4 (K's rows)"),
        ([("h*d_k", 13, "W's rows")], {},
         "not determined by the sizes at hand: h, d_k; give each by name"),
        ([("h*d_k", 0, "W's rows")], {"h": 0},
         "not determined by the sizes at hand: d_k; give each by name"),
        ([("h*d_k", 5, "W's rows")], {"h": 0},
         "h*d_k = 5 from W's rows does not fit: not with h = 0 (the sizes given)"),
        ([("4", 5, "Q's rows")], {}, "Q's rows has size 5, where 4 is declared"),
        ([("n+3", 2, "Q's rows")], {}, "n+3 = 2 from Q's rows does not fit: no size n makes it so"),
        ([("n+m", 5, "A"), ("n+m", 6, "B")], {},
         "no sizes satisfy m+n = 6 from B and m+n = 5 from A together"),
        ([("d//h", 3, "A"), ("d", 13, "B"), ("h", 4, "C")], {},
         "d//h = 3 from A does not fit: d//h is not a whole number: "
         "13 divided by 4 leaves a remainder (d = 13, h = 4)"),
        ([("n", True, "A")], {}, "n from A must be a non-negative integer, but is True"),
        ([], {"n": -1}, "n must be a non-negative integer, but is -1"),
    ],
)  # fmt: skip
def test_not_solved(
    equations: list[tuple[str, int, str]], known: dict[str, int], message: str
) -> None:
    with pytest.raises(SizeError) as caught:
        solved(*equations, **known)
    assert str(caught.value) == message


# -- names, errors, imports


def test_nearest() -> None:
    names = ["dot_product", "scaled_dot_product", "alibi", "Q"]
    assert nearest("dot_prodct", names)[0] == "dot_product"
    assert nearest("q", names) == ("Q",)
    assert nearest("zzz", names) == ()


class Untold:
    """What is no name is not shown: it might be data."""

    def __repr__(self) -> str:
        raise AssertionError("the value was shown")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rows", "there is no layout named 'rows'; did you mean 'row'?"),
        ("zzz", "there is no layout named 'zzz'; there are column, row"),
        (None, "there is no layout named 'None'; there are column, row"),
        (["row"], "there is no layout named 'list'; there are column, row"),
        (Untold(), "there is no layout named 'Untold'; there are column, row"),
        ("z" * 99, f"there is no layout named '{'z' * 80}'; there are column, row"),
    ],
    ids=["near", "far", "none", "a list", "an object", "long"],
)
def test_named(name: object, message: str) -> None:
    table = {"column": 0, "row": 1}
    assert named("layout", "row", table) == 1
    with pytest.raises(UnknownNameError) as refused:
        named("layout", name, table)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    "error",
    [
        SizeSyntaxError("a\nb+c?\nd", 5, "an operator"),
        RelationError("n = n+1", "no sizes satisfy it"),
        SizeError("contradiction", size="n", value=5, where="K", other_value=7, other_where="V"),
        UnknownNameError("formula", "dot", ["dot_product"]),
    ],
)
def test_errors_survive_copying_with_their_facts(error: Exception) -> None:
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert twin.__dict__ == error.__dict__


def test_the_caret_is_under_its_line() -> None:
    assert str(SizeSyntaxError("a\nb+c?\nd", 5, "an operator")).endswith("    b+c?\n       ^")


def test_neither_sympy_nor_numpy_is_imported() -> None:
    code = "import symattn.tags, sys; sys.exit(bool({'sympy', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
