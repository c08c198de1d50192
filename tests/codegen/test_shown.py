"""What a function shows in a REPL: its sources, the shapes in them, and its documentation."""

import inspect

import numpy as np
import pytest

import symattn as sa

n, m, d_k, d_v = sa.dims("n m d_k d_v")
Q, K, V = sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v)
A = sa.attention(Q, K, V)
BOTH = sa.lambdify([Q, K, V], A)


def test_sources_print_as_text() -> None:
    shown = repr(BOTH.sources)
    assert shown.startswith("# sources['direct']\nimport numpy as np\n")
    assert "\n\n\n# sources['blocked']\nimport numpy as np\n" in shown
    assert BOTH.sources["blocked"].rstrip() in shown
    assert "\\n" not in shown


@pytest.mark.parametrize("name", ["block", "auto", 0])
def test_a_plan_that_is_not_there_is_refused_with_those_that_are(name: str) -> None:
    with pytest.raises(sa.UnknownNameError, match=r"there are direct, blocked$"):
        BOTH.sources[name]
    assert name not in BOTH.sources
    assert BOTH.sources.get(name, "") == ""
    with pytest.raises(sa.UnknownNameError, match=r"there are direct$"):
        sa.lambdify([Q, K, V], A, plan="direct").sources["blocked"]


def test_shapes_in_blocks_are_those_of_the_formula() -> None:
    a = sa.dim("a")
    X, Y = sa.matrix("X", a, n), sa.matrix("Y", a, m)
    f = sa.lambdify([X, Y, V], sa.softmax(X.T @ Y, axis=1) @ V, plan="blocked")
    assert "# (a, m)" in f.source
    assert "# (a, b)" in f.source  # b queries of a strip
    assert "# (m, d_k)" in BOTH.sources["blocked"]
    assert "# (b, d_k)" in BOTH.sources["blocked"]


@pytest.mark.parametrize(
    ("plan", "options"),
    [("auto", ["workers", "out"]), ("direct", ["out"]), ("blocked", ["workers", "out"])],
)
def test_the_documentation_names_the_options(plan: str, options: list[str]) -> None:
    f = sa.lambdify([Q, K, V], A, plan=plan)
    lines = inspect.getdoc(f)
    assert lines is not None
    names = [line.partition(":")[0] for line in lines.splitlines()[2:]]
    assert names == ["Q", "K", "V", *options, "returns"]
    assert list(inspect.signature(f).parameters) == names[:-1]


def test_an_option_that_a_call_does_not_take_is_not_named() -> None:
    sums = sa.lambdify([Q, K, V], A, returns="lse")
    assert "out" not in inspect.signature(sums).parameters
    assert "out:" not in str(sums.__doc__)
    out = sa.matrix("out", n, d_k)
    own = sa.lambdify([out], out + out)
    assert str(own.__doc__).count("out:") == 1
    np.testing.assert_array_equal(own(out=np.ones((2, 3))), np.full((2, 3), 2.0))
