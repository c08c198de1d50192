# ruff: noqa: F722, UP007  (linters take the text in M[…] for a name to come)
"""From annotations to hints: every spelling of a shape, and what is refused."""

import subprocess
import sys
from collections.abc import (
    Callable,
)
from pathlib import Path
from typing import (
    Annotated,
    Any,
    NewType,
    Protocol,
    TypeVar,
    Union,
    runtime_checkable,
)

import numpy as np
import numpy.typing as npt
import pytest
from beartype.vale import Is
from jaxtyping import Bool, Float, Float32, Int, Shaped

import symattn
from symattn.errors.checks import SpecError
from symattn.runtime.declared.containers import TupleHint
from symattn.runtime.declared.hints import (
    ArrayHint,
    Misfit,
    Place,
    PlainHint,
    UnionHint,
)
from symattn.runtime.declared.reading import UNANNOTATED
from symattn.runtime.declared.spelled import M
from symattn.tags.spec import parse_shape
from tests.runtime.readings import D_N, Other, fits, places, read, refusal, texts

# -- Annotated


def test_annotated() -> None:
    hint = read(Annotated[np.ndarray, "d n"])
    assert hint == ArrayHint(D_N, (np.ndarray,))


def test_other_metadata_is_ignored() -> None:
    assert read(Annotated[np.ndarray, 3, "d n", object()]) == ArrayHint(D_N, (np.ndarray,))
    assert read(Annotated[np.ndarray, 3]) == PlainHint(np.ndarray, "a numpy.ndarray", (np.ndarray,))


def test_two_shapes_are_refused() -> None:
    error = refusal(Annotated[np.ndarray, "d n", "m n"])
    assert error.problem == "K has two shapes: Annotated[np.ndarray, 'd n', 'm n']"
    refusal(Annotated[M["d n"], "d n"])
    refusal(Annotated[Float[np.ndarray, "d n"], "d n"])
    refusal(Annotated[Float[np.ndarray, "d n"] | None, "d n"])


def test_text_on_what_is_no_array_is_documentation() -> None:
    assert read(Annotated[int, "the number of heads"]) == read(int)
    assert not read(Annotated[Callable[[np.ndarray], float], "the score"]).has_shapes
    assert texts(read(Annotated[tuple[M["d n"], int], "keys, and how many"])) == ["d n"]


def test_a_shape_on_a_list_is_refused() -> None:
    error = refusal(Annotated[list[np.ndarray], "d n"])
    assert error.problem == 'K has the text "d n" on list[np.ndarray], which is no array'
    assert error.fix == 'write list[Annotated[np.ndarray, "d n"]]'
    assert refusal(Annotated[dict[str, list[np.ndarray]] | None, "d n"]).fix == (
        'write dict[str, list[Annotated[np.ndarray, "d n"]]] | None'
    )
    refusal(list[Annotated[list[np.ndarray], "d n"]])
    refusal(Annotated[np.ndarray | list[np.ndarray], "d n"])


def test_a_shape_that_cannot_be_read_keeps_its_caret() -> None:
    error = refusal(Annotated[np.ndarray, "d 2*(n"])
    first, line, caret = error.problem.split("\n")
    assert first.startswith("K has a shape that cannot be read: expected")
    assert line[caret.index("^") - 1] == "n"
    assert "d 2*(n" in line
    assert refusal(M["d n^^"], parameter="return").problem.startswith("the result has a shape")


def test_the_kinds_of_numpy_annotations() -> None:
    hint = read(Annotated[npt.NDArray[np.floating], "d n"])
    assert fits(hint, np.zeros((5, 7), "float16"))
    assert places(hint, np.zeros((5, 7), "int64")) == {"K": "dtype"}
    sized = np.ndarray[tuple[int, int], np.dtype[np.float32]]
    assert fits(read(Annotated[sized, "d n"]), np.zeros((5, 7), "float32"))
    assert "another number of axes" in refusal(Annotated[sized, "b d n"]).problem


def test_array_like() -> None:
    hint = read(Annotated[npt.ArrayLike, "d n"])
    assert fits(hint, np.zeros((5, 7)))
    for value in ([[1.0]], 2.5, "text", None):
        assert not fits(hint, value)


def test_a_number_is_as_good_as_an_array_without_axes() -> None:
    assert fits(read(Annotated[np.ndarray | float, ""]), 2.5)
    assert fits(read(Annotated[np.ndarray | float, "..."]), 2.5)
    assert not fits(read(Annotated[np.ndarray | float, "n"]), 2.5)


def test_unions_and_type_variables_of_arrays() -> None:
    either = read(Annotated[np.ndarray | Other | None, "d n"])
    assert fits(either, np.zeros((5, 7)))
    assert fits(either, Other(5, 7))
    assert fits(either, None)
    assert not fits(either, 3)
    chosen = TypeVar("chosen", np.ndarray, Other)
    hint = read(Annotated[chosen, "d n"])  # pyright: ignore
    assert hint == ArrayHint(D_N, (np.ndarray, Other))
    bounded = TypeVar("bounded", bound=np.ndarray)
    assert read(Annotated[bounded, "d n"]) == ArrayHint(D_N, (np.ndarray,))  # pyright: ignore
    assert read(Annotated[TypeVar("free"), "d n"]) == ArrayHint(D_N)
    assert read(Annotated[NewType("new", np.ndarray), "d n"]) == ArrayHint(D_N, (np.ndarray,))


def test_protocols() -> None:
    @runtime_checkable
    class Checkable(Protocol):
        @property
        def shape(self) -> tuple[int, ...]: ...

    class Unchecked(Protocol):
        shape: tuple[int, ...]

    assert fits(read(Annotated[Checkable, "d n"]), Other(5, 7))
    assert "runtime_checkable" in refusal(Annotated[Unchecked, "d n"]).fix


def test_a_validator_beside_a_shape_is_not_dropped() -> None:
    positive = Is[lambda array: array.sum() > 0]
    assert "validator" in refusal(Annotated[np.ndarray, "d n", positive]).problem
    hint = read(Annotated[int, "a size", Is[lambda size: size > 2]])
    assert [fits(hint, size) for size in (3, 1)] == [True, False]


# -- M


def test_sizes_of_m() -> None:
    d_k, n, h = symattn.dims("d_k n h")
    cases = {
        M[d_k, n]: "d_k n",
        M["d_k n"]: "d_k n",
        M[..., d_k, n]: "... d_k n",
        M["*batch", d_k, 2 * n]: "*batch d_k 2*n",
        M[3, n]: "3 n",
        M[h * d_k + 1, n - h]: "d_k*h+1 n-h",
        M[np.int64(4), n**2]: "4 n**2",
        M[n]: "n",
    }
    for annotation, text in cases.items():
        (found,) = texts(read(annotation))
        shape = parse_shape(text)
        assert (parse_shape(found).before, parse_shape(found).after) == (shape.before, shape.after)


def test_a_size_that_begins_with_a_sign_is_one_size() -> None:
    n, h = symattn.dims("n h")
    assert str(n - h) == "-h + n"  # this is what makes the case
    (text,) = texts(read(M[h, n - h]))
    assert parse_shape(text).after == parse_shape("h (n-h)").after


def test_m_without_axes() -> None:
    (text,) = texts(read(M[()]))
    assert parse_shape(text).rank == 0
    assert fits(read(M[()]), np.float32(2))


def test_m_composes() -> None:
    assert texts(read(M["d n"] | None)) == ["d n"]
    assert texts(read(None | M["d n"])) == ["d n"]
    assert texts(read(dict[str, list[M["d n"]]])) == ["d n"]


@pytest.mark.parametrize("size", [2.5, None, True, slice(3), [3], object()])
def test_what_is_no_size(size: Any) -> None:
    with pytest.raises(SpecError, match="is not a size"):
        M[size, 3]


def test_m_is_not_called() -> None:
    with pytest.raises(SpecError, match=r"write M\["):
        M("d n")


def test_m_needs_no_sympy() -> None:
    home = "symattn.runtime.declared.spelled"
    code = f"import sys; from {home} import M; M['d n', 3]; print(list(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(symattn.__file__).parents[1],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    assert "'symattn.runtime.declared.spelled'" in done.stdout
    assert not {"sympy", "numpy", "jaxtyping", "beartype"} & set(done.stdout.split("'"))


# -- jaxtyping


def test_jaxtyping() -> None:
    hint = read(Float[np.ndarray, "d n"])
    assert fits(hint, np.zeros((5, 7), "float16"))
    assert places(hint, np.zeros((5, 7), "int64")) == {"K": "dtype"}
    assert places(hint, np.zeros(7)) == {"K": "rank"}
    assert places(hint, Other(5, 7)) == {"K": "type"}
    assert read(Shaped[np.ndarray, "d n"]) == ArrayHint(D_N, (np.ndarray,))
    assert fits(read(Bool[Any, "d n"]), np.zeros((5, 7), "bool"))


def test_sizes_of_jaxtyping_are_not_evaluated() -> None:
    """jaxtyping would call the function when it checks."""
    error = refusal(Float[np.ndarray, "print('called') n"])
    assert "cannot be read" in error.problem


def test_one_jaxtyping_in_another() -> None:
    hint = read(Shaped[Float32[np.ndarray, "d n"], "b"])
    assert texts(hint) == ["b d n"]
    assert fits(hint, np.zeros((3, 5, 7), "float32"))
    (item,) = next(hint.met(np.zeros((3, 5, 7)), Place.of("K")))
    assert isinstance(item, Misfit)
    assert item.wanted == "an array of dtype float32"


def test_scalars_of_jaxtyping() -> None:
    numbers = Union[np.ndarray, bool, int, float, complex]  # as jax.typing.ArrayLike
    hint = read(Float[numbers, ""])
    for value in (2.5, np.float32(2), np.zeros(())):
        assert fits(hint, value)
    for value in (np.int64(3), np.zeros(3), "text", None):
        assert not fits(hint, value)
    assert not fits(read(Float[numbers, "n"]), 2.5)


def test_jaxtyping_of_what_numpy_takes() -> None:
    try:
        annotation = Float[npt.ArrayLike, "..."]
    except TypeError:
        pytest.skip("this jaxtyping does not know this NumPy")
    for value in (2.5, np.float32(2), np.zeros((5, 7))):
        assert fits(read(annotation), value)
    assert not fits(read(annotation), [2.5])


def test_unions_of_jaxtyping() -> None:
    hint = read(Float[np.ndarray, "d n"] | Int[Other, "n"])
    assert fits(hint, np.zeros((5, 7)))
    assert not fits(hint, np.zeros((5, 7), int))
    assert isinstance(hint, UnionHint)
    assert texts(hint) == ["d n", "n"]


def test_jaxtyping_without_a_shape_is_refused() -> None:
    assert refusal(Float).fix == 'write Float[np.ndarray, "d_k n"]'


def test_trees_are_refused() -> None:
    """jaxtyping makes these where JAX is there; these have the same attributes."""
    metaclass = type("_MetaPyTree", (type,), {"__module__": "jaxtyping._pytree_type"})
    tree = metaclass("PyTree", (), {"leaftype": Float[np.ndarray, "n"], "structure": None})
    assert "PyTree" in refusal(tree).problem
    structured = metaclass("PyTree", (), {"leaftype": int, "structure": "T"})
    assert "PyTree" in refusal(structured).problem


# -- a spec on the decorator


def test_a_spec_gives_the_shape() -> None:
    assert read(UNANNOTATED, D_N) == read(Any, D_N) == ArrayHint(D_N)
    assert read(np.ndarray, D_N) == ArrayHint(D_N, (np.ndarray,))
    optional = read(np.ndarray | None, D_N)
    assert fits(optional, None)
    assert places(optional, np.zeros((5, 7))) == {"K": (5, 7)}
    typed = read(npt.NDArray[np.float32], D_N)
    assert places(typed, np.zeros((5, 7), "float64")) == {"K": "dtype"}
    assert read(Annotated[np.ndarray, 3], D_N) == ArrayHint(D_N, (np.ndarray,))


def test_a_spec_beside_a_shape_or_on_another_type_is_refused() -> None:
    assert "and one in" in refusal(M["d n"], D_N).problem
    assert "and one in" in refusal(list[M["d n"]], D_N).problem
    assert refusal(int, D_N).problem == 'K has the shape "d n" in the spec, but int is no array'
    refusal(list[np.ndarray], D_N)
    refusal("np.ndarray", D_N)


def test_specs_of_a_tuple() -> None:
    specs = (D_N, parse_shape("n"))
    for annotation in (UNANNOTATED, tuple, tuple[np.ndarray, np.ndarray], tuple[np.ndarray, ...]):
        hint = read(annotation, specs)
        assert isinstance(hint, TupleHint)
        assert texts(hint) == ["d n", "n"]
    assert "2 shapes" in refusal(tuple[np.ndarray], specs).problem
    refusal(np.ndarray, specs)
