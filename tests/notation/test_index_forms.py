"""Index forms, entry by entry, as text and LaTeX."""

from fractions import Fraction

import pytest

import symattn as sa
from symattn.meaning.form import (
    Add,
    Allowed,
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
    Place,
    Position,
    Power,
    Same,
    Softmax,
    Sum,
    Truth,
    either,
)
from symattn.notation.index_forms import entry_latex, entry_text
from symattn.tags import Size

N, M, D, H = (Size.tag(tag) for tag in ("n", "m", "d", "h"))
i, j, t, c = Index(N), Index(M), Index(M), Index(D)
NAMES = {i: "i", j: "j"}


def entry(name: str, *places: Place) -> Entry:
    return Entry(name, tuple(Size.tag("n") for _ in places), places)


SCORES = entry("S", (i,), (t,))

TABLE: list[tuple[Form, str, str]] = [
    (
        Sum(c, Mul((entry("Q", (c,), (i,)), entry("K", (c,), (j,))))),
        "Σ_c Q[c,i] K[c,j]",
        r"\sum_{c} Q_{ci} K_{cj}",
    ),
    (
        Softmax(t, SCORES, (j,)),
        "softmax_t(S[i,t])[j]",
        r"\operatorname{softmax}_{t}(S_{it})_{j}",
    ),
    (
        Softmax(t, SCORES, (j,), AtMost(Position((t,)), Position((i,)))),
        "softmax_{t: t ≤ i}(S[i,t])[j]",
        r"\operatorname{softmax}_{t \,:\, t \le i}(S_{it})_{j}",
    ),
    (Maximum(t, SCORES), "max_t(S[i,t])", r"\max_{t}(S_{it})"),
    (Truth(Same((i,), (j,))), "[i = j]", "[i = j]"),
    (
        Truth(Not(AtMost(Position((j,)), Position((i,))))),
        "[j > i]",
        "[j > i]",
    ),
    (
        Truth(
            either(
                Same((i,), (j,)), Both(Allowed("keep", (N, M), ((i,), (j,))), Not(Same((j,), (i,))))
            )
        ),
        "[i = j or (keep[i,j] and j ≠ i)]",
        r"[i = j \lor (\mathrm{keep}_{ij} \land j \ne i)]",
    ),
    # A merged axis is a pair, an axis of size one is not written, two subscripts are none.
    (entry("T", (i, j), ()), "T[(i,j)]", "T_{(i,j)}"),
    (entry("q", (), ()), "q", "q"),
    (entry("W_Q", (i,), (j,)), "W_Q[i,j]", "(W_{Q})_{ij}"),
    # A sum that is not the last factor, or stands below a line, is in parentheses.
    (
        Mul((Sum(c, entry("a", (c,))), Parameter("b"))),
        "(Σ_c a[c]) b",
        r"\left( \sum_{c} a_{c} \right) b",
    ),
    (
        Power(Sum(c, entry("a", (c,))), Fraction(-1)),
        "1 / (Σ_c a[c])",
        r"\frac{1}{\sum_{c} a_{c}}",
    ),
    (
        Sum(c, Add((entry("a", (c,)), Mul((Number(Fraction(-1)), Extent(D)))))),
        "Σ_c (a[c] - d)",
        r"\sum_{c} (a_{c} - d)",
    ),
]


@pytest.mark.parametrize(("form", "as_text", "as_latex"), TABLE)
def test_what_is_written(form: Form, as_text: str, as_latex: str) -> None:
    assert entry_text(form, NAMES) == as_text
    assert entry_latex(form, NAMES) == as_latex


def test_attention() -> None:
    d_k, d_v, n, m = sa.dims("d_k d_v n m")
    Q, K, V = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m)
    a = V @ sa.softmax(K.T @ Q / sa.sqrt(d_k), axis=0)
    row, column = Index(a.sizes[0]), Index(a.sizes[1])
    shown = entry_text(a.meaning((row,), (column,)), {row: "v", column: "i"})
    assert shown == "Σ_j V[v,j] softmax_t(Σ_c K[c,t] Q[c,i] / √d_k)[j]"


def test_a_bound_index_takes_no_name_in_sight() -> None:
    inner, outer = Index(D, "c"), Index(D, "c")
    body = Mul((entry("a", (outer,)), Sum(inner, entry("b", (inner,), (outer,)))))
    assert entry_text(Sum(outer, body)) == "Σ_c a[c] Σ_t b[t,c]"
    # c is a scalar, t an input, s a free index
    free = Index(D)
    body = Mul((Parameter("c"), entry("t", (inner,)), entry("a", (free,))))
    assert entry_text(Sum(inner, body), {free: "s"}) == "Σ_u c t[u] a[s]"


def test_the_same_name_serves_where_an_index_is_no_longer_bound() -> None:
    other = Index(D, "c")
    form = Add((Sum(c, entry("a", (c,))), Sum(other, entry("b", (other,)))))
    assert entry_text(form) == "Σ_c a[c] + Σ_c b[c]"


def test_free_indices_without_a_name_get_one() -> None:
    assert entry_text(Mul((entry("Q", (i,), (j,)), entry("K", (j,), (t,))))) == "Q[i,j] K[j,k]"


def test_letters_that_run_out_are_numbered() -> None:
    indices = [Index(H) for _ in range(30)]
    form: Form = entry("T", *((index,) for index in indices))
    for index in indices:
        form = Sum(index, form)
    shown = entry_text(form)
    named = shown.partition("T[")[2].rstrip("]").split(",")
    assert len(set(named)) == 30


def test_a_flat_sum_of_a_thousand_terms() -> None:
    form = Add(tuple(entry("a", (i,)) for _ in range(1000)))
    assert entry_text(form).count("a[i]") == 1000
    assert entry_latex(form).count("a_{i}") == 1000


def test_nesting_costs_no_more_than_its_length() -> None:
    form: Form = entry("a", (i,))
    for _ in range(40):
        form = Mul((Number(Fraction(2)), form))
    assert entry_text(form).count("2") == 40
