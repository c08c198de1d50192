"""Shapes and signatures as text: against jaxtyping, against what texts were made from, and junk."""

from __future__ import annotations

import pickle
import time
import unicodedata
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from jaxtyping import Float

from symattn.errors import SizeError, SizeSyntaxError
from symattn.tags import (
    Axis,
    Equation,
    Rest,
    ShapeSpec,
    Size,
    is_reference,
    parse_shape,
    parse_signature,
    parse_size,
    reference_path,
    solve,
    undetermined,
)

n, m, h, d_k, d_model = (Axis(Size.tag(tag)) for tag in ("n", "m", "h", "d_k", "d_model"))
ANY = Axis(None)


def axis(text: str, *, broadcasts: bool = False) -> Axis:
    return Axis(parse_size(text), broadcasts)


# -- what is read

READ: dict[str, tuple[tuple[Axis, ...], Rest | None, tuple[Axis, ...]]] = {
    "": ((), None, ()),
    "()": ((), None, ()),
    "n d_k": ((), None, (n, d_k)),
    " n,d_k ,m ": ((), None, (n, d_k, m)),
    "n\n\td_k": ((), None, (n, d_k)),
    "h * d_k, n + 1 (m)  2": ((), None, (axis("h*d_k"), axis("n+1"), m, axis("2"))),
    "(n+m)*h d_model//h 2*n": ((), None, (axis("(n+m)*h"), axis("d_model//h"), axis("2*n"))),
    "dim1 d_{model} λ' n": ((), None, (axis("dim1"), d_model, axis("λ'"), n)),
    "... n": ((), Rest(None), (n,)),
    "n ...": ((n,), Rest(None), ()),
    "n *batch m": ((n,), Rest("batch"), (m,)),
    "n, *batch, m": ((n,), Rest("batch"), (m,)),
    "*_ n": ((), Rest(None), (n,)),
    "*_batch n": ((), Rest(None), (n,)),
    "*#batch n": ((), Rest("batch", broadcasts=True), (n,)),
    "#*batch n": ((), Rest("batch", broadcasts=True), (n,)),
    # A star is a product's but for one after a blank and right before a name.
    "h *d_k": ((h,), Rest("d_k"), ()),
    "h *#b": ((h,), Rest("b", broadcasts=True), ()),
    "h* d_k": ((), None, (axis("h*d_k"),)),
    "h *(n+1)": ((), None, (axis("h*(n+1)"),)),
    "h *2": ((), None, (axis("2*h"),)),
    "(h *d_k)": ((), None, (axis("h*d_k"),)),
    "n -1": ((), None, (axis("n-1"),)),
    "_ n _width": ((), None, (ANY, n, ANY)),
    "#n #(n+1) #2*n #3": (
        (),
        None,
        tuple(axis(text, broadcasts=True) for text in ("n", "n+1", "2*n", "3")),
    ),
    "rows=3 cols=h*d_k b=_ #c=4 e = n": (
        (),
        None,
        (axis("3"), axis("h*d_k"), ANY, axis("4", broadcasts=True), n),
    ),
    "d_k×n": ((), None, (d_k, n)),
    "n × h*d_k": ((), None, (n, axis("h*d_k"))),
    "M^{d_k×n}": ((), None, (d_k, n)),
    "ℝ^{d_{k}×n}": ((), None, (d_k, n)),
    r"R^{n \times d_k}": ((), None, (n, d_k)),
    r"\mathbb{R}^{n \times d_k}": ((), None, (n, d_k)),
    r"\mathbb R ^ {... \times n}": ((), Rest(None), (n,)),
    r"\mathcal{M}^{n}": ((), None, (n,)),
    "ℝ^{}": ((), None, ()),
    "M^2 R": ((), None, (axis("M^2"), axis("R"))),
}


@pytest.mark.parametrize("text", READ)
def test_read(text: str) -> None:
    shape = parse_shape(text)
    assert (shape.before, shape.rest, shape.after) == READ[text]
    assert parse_shape(shape.text) == shape


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", "()"),
        (" n \n d_k ", "n d_k"),
        ("h * d_k,n", "h * d_k,n"),
        ("M^{ d_k × n }", "d_k × n"),
        (r"\mathbb{R}^{n \times d_k}", "n × d_k"),
        ("{ self.h }", "{ self.h }"),
    ],
)
def test_text_is_what_was_written(text: str, shown: str) -> None:
    assert parse_shape(text).text == shown


def test_references_are_tags() -> None:
    shape = parse_shape("{self.d_model} 2*{ cfg . h } {self._h}*d_k {h}")
    assert shape.tags == ("{self.d_model}", "{cfg.h}", "d_k", "{self._h}", "{h}")
    assert [is_reference(tag) for tag in shape.tags] == [True, True, False, True, True]
    assert reference_path("{self.d_model}") == ("self", "d_model")
    assert reference_path("{h}") == ("h",)
    assert shape.sizes[1] == 2 * Size.tag("{cfg.h}")
    assert [str(size) for size in parse_shape("2*{self.n}+1").sizes] == ["2*{self.n}+1"]


def test_names_are_those_that_python_reads() -> None:
    assert parse_shape("{self.ﬁt}").tags == ("{self.fit}",)
    assert list(parse_signature("ﬁt: n").parameters) == ["fit"]
    with pytest.raises(SizeSyntaxError, match="one shape of fit only"):
        parse_signature("ﬁt: n, fit: n")


def test_looking_inside() -> None:
    shape = parse_shape("h*d_k _ *batch n h")
    assert shape.tags == ("h", "d_k", "n")
    assert [str(size) for size in shape.sizes] == ["h*d_k", "n", "h"]
    assert shape.axes == (axis("h*d_k"), ANY, n, h)
    assert shape.rank == 4
    assert [shape.fits_rank(rank) for rank in (3, 4, 5)] == [False, True, True]
    assert [parse_shape("n m").fits_rank(rank) for rank in (1, 2, 3)] == [False, True, False]
    assert pickle.loads(pickle.dumps(shape)) == shape
    assert len({shape, parse_shape("h*d_k _ *batch n h"), parse_shape("n")}) == 2
    assert parse_shape("n m") is parse_shape("n m")


# -- what is refused


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("{self.f()}", 7, "nothing is evaluated"),
        ("{self[0]}", 5, "nothing is evaluated"),
        ("{self.h!r}", 7, "nothing is evaluated"),
        ("{h:3}", 2, "nothing is evaluated"),
        ("{h+1}", 2, "nothing is evaluated"),
        ("{self.h", 7, "nothing is evaluated"),
        ("{1+1}", 1, "a name in"),
        ("{}", 1, "a name in"),
        ("{self.}", 6, "a name in"),
        ("n {self.class}", 8, "'class' is not in Python"),
        ("{lambda}", 1, "'lambda' is not in Python"),
        ("{self.None.h}", 6, "'None' is not in Python"),
        ("None", 0, "what may be None"),
        ("n 2*None", 4, "what may be None"),
        ("{.h}", 1, "a name in"),
        ("{__import__('os')}", 1, "does not begin with '__'"),
        ("n {self.__class__}", 8, "does not begin with '__'"),
        ("{self._＿class__}", 6, "does not begin with '__'"),  # as Python reads that name
        ("n ?d", 2, "one size for all leaves of a tree"),
        ("*?d", 1, "one size for all leaves of a tree"),
        ("... n ...", 6, "'...' or '*name' only"),
        ("*a *b", 3, "'...' or '*name' only"),
        ("*a, *a", 4, "'...' or '*name' only"),
        ("##n", 1, "one '#' only"),
        ("**a", 1, "one '*' only"),
        ("#", 1, "a size in"),
        ("# n", 1, "a size in"),
        ("#_", 1, "a size in"),
        ("#...", 1, "a size in"),
        ("*", 1, "a name right after the star"),
        ("n * ", 4, "a tag"),
        ("* n", 1, "a name right after the star"),
        ("*4", 1, "a name right after the star"),
        ("*#_", 2, "a name right after the star"),
        ("*...", 1, "a name right after the star"),
        ("*a*n", 2, "a blank or a comma"),
        ("*a=n", 2, "a blank or a comma"),
        ("...n", 3, "a blank or a comma"),
        ("n...", 1, "a blank or a comma"),
        ("2n", 1, "a blank or a comma"),
        ("_n+1", 2, "a blank or a comma"),
        ("_4", 1, "a letter"),
        ("__n", 1, "a letter"),
        ("a=*n", 2, "a size, '_', '...' or '*name'"),
        ("a=", 2, "a size, '_', '...' or '*name'"),
        ("a==3", 2, "a size, '_', '...' or '*name'"),
        ("n,", 2, "a size, '_', '...' or '*name'"),
        (",n", 0, "a size, '_', '...' or '*name'"),
        ("n,,m", 2, "a size, '_', '...' or '*name'"),
        ("n @m", 2, "a size, '_', '...' or '*name'"),
        ("n@m", 1, "a blank or a comma"),
        ("n/m", 1, "a blank or a comma"),
        ("n;m", 1, "a blank or a comma"),
        ("Q: n", 1, "a blank or a comma"),
        ("min(n,m)", 3, "a blank or a comma"),
        ("n -> m", 2, "a tag"),
        ("(n, m)", 0, "the axes without parentheses, 'n, m'"),
        ("(n d)", 0, "the axes without parentheses, 'n d'"),
        ("(n,)", 0, "the axes without parentheses, 'n'"),
        ("(n d) e", 3, "')'"),
        ("-3", 0, "at least 0"),
        ("n 2-3", 2, "at least 0"),
        ("n × m k", 6, "between all axes, or between none"),
        ("n m × k", 4, "between all axes, or between none"),
        ("M^{h d_k × n}", 5, "between all axes, or between none"),
        ("M^{n, m}", 4, "between all axes, or between none"),
        ("M^{n×m", 6, "'}'"),
        ("M^{n×m} k", 8, "the end"),
        ("() n", 3, "the end"),
        ("n×", 2, "a size, '_'"),
        ("n//(m-m)", 1, "a divisor that is not zero"),
        ("n " * 100 + "n", 200, "at most 200 characters"),
    ],
)
def test_refused_with_its_place(text: str, position: int, reason: str) -> None:
    with pytest.raises(SizeSyntaxError) as caught:
        parse_shape(text)
    assert caught.value.position == position
    assert reason in str(caught.value)
    assert caught.value.what == "a shape"
    _, line, caret = str(caught.value).split("\n")
    assert line[len(caret) - 1 : len(caret)].strip() == text[position : position + 1].strip()


# -- signatures


def shown(shape: ShapeSpec | tuple[ShapeSpec, ...] | None) -> Any:
    return [each.text for each in shape] if isinstance(shape, tuple) else shape and shape.text


@pytest.mark.parametrize(
    ("text", "parameters", "result"),
    [
        ("Q: n d_k, K: m d_k -> n d_v", {"Q": "n d_k", "K": "m d_k"}, "n d_v"),
        ("Q: n, d_k, K: m, d_k", {"Q": "n, d_k", "K": "m, d_k"}, None),
        ("Q: ... d_k n -> (d_v n, m n)", {"Q": "... d_k n"}, ["d_v n", "m n"]),
        ("Q: ... d_k n -> d_v n, m n", {"Q": "... d_k n"}, ["d_v n", "m n"]),
        ("Q ∈ M^{d_k×n}", {"Q": "d_k×n"}, None),
        (r"Q \in \mathbb{R}^{n \times d_k}", {"Q": "n × d_k"}, None),
        ("Q∈ℝ^{n×d_k}, K: m d_k → m n", {"Q": "n×d_k", "K": "m d_k"}, "m n"),
        (r"b ∈ ℝ^n, c ∈ ℝ, d \in R^3 \to n", {"b": "n", "c": "()", "d": "3"}, "n"),
        ("Q: ℝ^{n×d_k} -> M^{d_k×n}, d_k", {"Q": "n×d_k"}, ["d_k×n", "d_k"]),
        ("\n  Q: n d_k\n  K: m, d_k;\n\n  -> m n\n", {"Q": "n d_k", "K": "m, d_k"}, "m n"),
        ("Q: n d_k; K: m d_k,\nV: m d_v", {"Q": "n d_k", "K": "m d_k", "V": "m d_v"}, None),
        ("-> n", {}, "n"),
        ("x: n ->", {"x": "n"}, "()"),
        ("x:, y: () -> ((), n)", {"x": "()", "y": "()"}, ["()", "n"]),
        ("x: n -> (n d,)", {"x": "n"}, ["n d"]),
        ("x: n -> (n, m)", {"x": "n"}, ["n", "m"]),
        ("x: n -> (n+m) n", {"x": "n"}, "(n+m) n"),
        ("x: n -> (n+m)*(n+h)", {"x": "n"}, "(n+m)*(n+h)"),
        ("x: n -> ((n+m) n, {self.h})", {"x": "n"}, ["(n+m) n", "{self.h}"]),
        ("x: *b n m, y: *b m -> *b n", {"x": "*b n m", "y": "*b m"}, "*b n"),
        ("query_states: b h n d", {"query_states": "b h n d"}, None),
        ("_x1: rows=3 -> rows=3", {"_x1": "rows=3"}, "rows=3"),
    ],
)
def test_signatures(text: str, parameters: dict[str, str], result: object) -> None:
    signature = parse_signature(text)
    assert {name: shape.text for name, shape in signature.parameters.items()} == parameters
    assert list(signature.parameters) == list(parameters)
    assert shown(signature.result) == result
    for name, shape in signature.parameters.items():
        assert shape == parse_shape(parameters[name])


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("", 0, "as in 'Q: n d_k'"),
        ("n d_k, m d_k -> n m", 0, "as in 'Q: n d_k'"),
        ("Q, K ∈ ℝ^{n×m}", 0, "as in 'Q: n d_k'"),
        ("Q: n, K: m, Q: n", 12, "one shape of Q only"),
        ("Q: n d K: m d", 8, "a blank or a comma"),
        ("Q: n d\nK m d", 6, "a blank or a comma"),
        ("Q: n ?d, K: m", 5, "one size for all leaves"),
        ("Q: n, K: {self.f()} -> n", 16, "nothing is evaluated"),
        ("x: n -> None", 8, "what may be None"),
        ("Q: n ... ... -> n", 9, "'...' or '*name' only"),
        ("Q ∈ n d_k", 4, "a set, as in"),
        ("Q ∈ M", 5, "'^' and a shape"),
        ("Q: n -> n, m", 9, "blanks between axes, or parentheses around several results"),
        ("Q: n -> *b, m", 10, "blanks between axes, or parentheses around several results"),
        ("Q: n -> n m,", 12, "'()' for an array without axes"),
        ("Q: n -> (n,, m)", 11, "'()' for an array without axes"),
        ("Q: n -> (n m, n), k", 11, "')'"),
        ("Q: n -> (n m", 11, "')'"),
        ("x: (n d) -> n", 3, "the axes without parentheses, 'n d'"),
        ("x: n -> (... n)", 8, "the axes without parentheses, '... n'"),
        ("Q: n -> n)", 9, "a blank or a comma"),
        ("Q: n -> m -> k", 10, "a tag"),
        ("Q: n -> n\nK: m", 9, "a blank or a comma"),
        ("Q: " + "n " * 1000, 2000, "at most 2000 characters"),
    ],
)
def test_signatures_refused_with_their_place(text: str, position: int, reason: str) -> None:
    with pytest.raises(SizeSyntaxError) as caught:
        parse_signature(text)
    assert caught.value.position == position
    assert reason in str(caught.value)
    assert caught.value.what == "a signature"
    assert caught.value.text == text


# -- against what texts are made from

TAGS = ("n", "m", "h", "d_k", "d_model", "{self.h}", "{cfg.width}")
atoms = st.sampled_from(TAGS).map(Size.tag) | st.integers(1, 4).map(Size.of)


def quotient(num: Size, den: Size) -> Size:
    try:
        return num // den
    except SizeError:
        return num


sizes = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds(Size.__add__, inner, inner),
        st.builds(Size.__mul__, inner, inner),
        st.builds(quotient, inner, inner),
    ),
    max_leaves=4,
)
blanks = st.sampled_from(["", " ", "  "])
axes = st.one_of(
    st.tuples(st.sampled_from(["_", "_x"]), st.just(ANY)),
    st.builds(
        lambda size, mark, label, blank: (
            mark + label + str(size).replace("+", f"{blank}+{blank}").replace("//", f"{blank}//"),
            Axis(size, bool(mark)),
        ),
        sizes,
        st.sampled_from(["", "", "#"]),
        st.sampled_from(["", "", "rows="]),
        blanks,
    ),
)
rests = st.sampled_from(
    [("...", Rest(None)), ("*_", Rest(None)), ("*b", Rest("b")), ("*#b", Rest("b", True))]
)


@settings(max_examples=150)
@given(
    st.lists(axes, max_size=3),
    st.none() | rests,
    st.lists(axes, max_size=3),
    st.sampled_from([" ", ", ", ",", "\t ", " × ", "×", r" \times "]),
)
def test_texts_are_read_as_they_were_made(
    before: list[tuple[str, Axis]],
    rest: tuple[str, Rest] | None,
    after: list[tuple[str, Axis]],
    separator: str,
) -> None:
    parts = [*before, *([rest] if rest else []), *after]
    text = separator.join(part for part, _ in parts)
    shape = parse_shape(text)
    if rest is None:
        before, after = [], [*before, *after]
    assert shape.before == tuple(part for _, part in before)
    assert shape.rest == (rest[1] if rest else None)
    assert shape.after == tuple(part for _, part in after)
    assert parse_shape(shape.text) == shape
    signature = parse_signature(f"Q: {text}, K: {text} -> n")
    assert signature.parameters == {"Q": shape, "K": shape}
    if "," not in separator:  # after the arrow, a comma stands between arrays
        assert parse_signature(f"-> {text}").result == shape
        assert parse_signature(f"-> ({text or '()'}, {text or '()'})").result == (shape, shape)


# -- against jaxtyping

WELL = ["n", "m", "3", "2", "_", "_b", "...", "*b", "*_", "#n", "#3", "*#b", "#*b", "rows=3", "b=n"]
ILL = ["##n", "#_", "_4", "#*_", "**b", "n...", "_n+1", "*n+1"]


def sizes_fit(shape: ShapeSpec, array: tuple[int, ...]) -> bool:
    """Whether an array can have this shape, one array at a time; of sizes that are plain."""
    if not shape.fits_rank(len(array)):
        return False
    after = len(array) - len(shape.after)
    pairs = zip(shape.axes, array[: len(shape.before)] + array[after:], strict=True)
    found: dict[str, int] = {}
    for each, number in pairs:
        if each.size is None or (each.broadcasts and number == 1):
            continue
        [(coefficient, monomial)] = each.size.terms
        expected = found.setdefault(monomial[0][0], number) if monomial else coefficient  # type: ignore[arg-type]
        if number != expected:
            return False
    return True


@settings(max_examples=300)
@given(
    st.lists(st.sampled_from([*WELL, *WELL, *ILL]), max_size=4).map(" ".join),
    st.lists(st.integers(1, 3), max_size=4).map(tuple),
)
def test_read_as_jaxtyping_reads(text: str, array: tuple[int, ...]) -> None:
    try:
        theirs: Any = Float[np.ndarray, text]
    except (ValueError, SyntaxError):
        with pytest.raises(SizeSyntaxError):
            parse_shape(text)
        return
    ours = parse_shape(text)
    assert sizes_fit(ours, array) == isinstance(np.zeros(array, np.float32), theirs)


# -- junk


def refusal(reading: Callable[[str], object], text: str) -> SizeSyntaxError | None:
    """How a text is refused, in the one way in which it may be."""
    try:
        reading(text)
    except SizeSyntaxError as error:
        return error
    return None


junk = st.text(st.sampled_from("nmQ_{}()[]'^*/+-# =,.:;?0123\n\t×∈→ℝM\\λ°"), max_size=40)
almost = st.builds(
    lambda text, place, more, cut: (
        text[: place % (len(text) + 1)] + more + text[place % (len(text) + 1) + cut :]
    ),
    st.sampled_from(
        [*READ, "Q: ... d_k n, K ∈ M^{d_k×m} -> (d_v n, m n)", "x: n\n y: {self.h} -> n m, n"]
    ),
    st.integers(0, 50),
    junk.map(lambda text: text[:3]),
    st.integers(0, 3),
)


@settings(max_examples=400)
@given(junk | almost | st.text())
def test_reading_always_ends_in_a_shape_or_a_syntax_error(text: str) -> None:
    for reading in (parse_shape, parse_signature):
        error = refusal(reading, text)
        if error is not None:
            assert 0 <= error.position <= len(unicodedata.normalize("NFC", text))
            assert error.text == unicodedata.normalize("NFC", text)


@pytest.mark.parametrize(
    "text",
    [
        "x: " + "a^16//(a-b-c-d-e-f-g-h) " * 80,
        "x: (a+b+c+d+e+f)^4 " * 100,
        "\n" * 2000,
        "x" * 2000,
        "x: " + "(" * 1990,
        ("," + "a" * 40) * 48,
        "x:" * 1000,
        "x: n -> " + "(" * 900 + ")" * 900,
        "x: " + "{a" + ".a" * 990 + "}",
    ],
)
def test_a_text_cannot_ask_for_long_work(text: str) -> None:
    start = time.process_time()
    for reading in (parse_shape, parse_signature):
        refusal(reading, text[: 200 if reading is parse_shape else 2000])
    assert time.process_time() - start < 3


# -- which tags do not follow

PRIMES = [p for p in range(101, 400) if all(p % q for q in range(2, 20))]
products = st.builds(
    lambda number, tags: number * Size.tag(tags[0]) * (Size.tag(tags[1]) if tags[1:] else 1),
    st.integers(1, 3),
    st.lists(st.sampled_from(["h", "d_k", "n", "m", "d_model"]), min_size=1, max_size=2),
)
quotients = st.sampled_from(["d_model//h", "d_model//h*n", "n*d_model//h+m", "2*d_model//h+3"])
mixed = st.one_of(
    products,
    st.builds(Size.__add__, products, products),
    st.builds(Size.__add__, products, st.integers(1, 3).map(Size.of)),
    quotients.map(parse_size),
)


@settings(max_examples=250)
@given(
    st.lists(mixed, min_size=1, max_size=6),
    st.permutations(PRIMES),
    st.sets(st.sampled_from(["h", "d_k", "n"]), max_size=1),
)
def test_undetermined_is_what_the_solver_does_not_find(
    written: list[Size], primes: list[int], known: set[str]
) -> None:
    point = dict(zip(["h", "d_k", "n", "m", "d_model"], primes, strict=False))
    point["d_model"] *= point["h"]  # so that quotients are whole
    equations = [Equation(size, size.value(point), str(size)) for size in written]
    tags = {tag for size in written for tag in size.tags}
    left = undetermined(written, known)
    assert set(left) <= tags - known
    given_sizes = {tag: point[tag] for tag in known}
    if left:
        with pytest.raises(SizeError, match="not determined") as caught:
            solve(equations, given_sizes)
        assert caught.value.tags == left
    else:
        assert solve(equations, given_sizes) == {tag: point[tag] for tag in tags | known}


@pytest.mark.parametrize(
    ("written", "known", "left"),
    [
        ("", "", ""),
        ("n 2 n", "", ""),
        ("h*d_k", "", "h d_k"),
        ("h*d_k", "h", ""),
        ("h*d_k", "q", "h d_k"),
        ("h*d_k d_k n*m", "", "m n"),
        ("2*n n^2+m n+1", "", ""),
        ("n+m n-m", "", ""),
        ("n+m 2*n+2*m", "", "m n"),
        ("d_model//h", "", "d_model h"),
        ("d_model//h d_model", "", ""),
        ("d_model//h h", "", ""),
        ("a*b b*c c*a", "", "a b c"),
        ("(n+m)//h", "h m", ""),
    ],
)
def test_undetermined(written: str, known: str, left: str) -> None:
    found = undetermined(map(parse_size, written.split()), known.split())
    assert sorted(found) == sorted(left.split())
