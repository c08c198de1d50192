"""`symattn run` called wrongly: a clear message on standard error, no traceback, exit status 2."""

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from symattn.cli import main

HEAD = Path(__file__).parents[1] / "data" / "minilm_layer5_head11.npz"
GOOD = {"Q": np.ones((5, 4)), "K": np.ones((7, 4)), "V": np.ones((7, 3))}


def refused(*arguments: str) -> str:
    """The message of a call that is wrong: a few lines on standard error, nothing else."""
    result = CliRunner().invoke(main, ["run", *arguments])
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    message = result.stderr.partition("Error: ")[2].strip()
    assert message
    assert message.count("\n") <= 3
    assert "Traceback" not in message
    return message


def saved(tmp_path: Path, **arrays: Any) -> str:
    path = tmp_path / "arrays.npz"
    np.savez(path, **arrays)
    return str(path)


# -- sizes, names, options

WRONG_SIZES = {
    "n=0": "n must be a positive integer, but is 0",
    "n=-3": "n must be a positive integer, but is -3",
    "n=2.5": "n must be a positive integer, but is 2.5",
    "n=True": "n must be a positive integer, but is True",
    "n=": "n must be a positive integer",
    "n=10**9": "n must be a positive integer, but is 10**9",
    "n=1e3": "n must be a positive integer, but is 1e3",
    "n=５": "n must be a positive integer, but is ５",
    "n=99999999999999999999": "n is too large: 99999999999999999999",
    "n=" + "9" * 5000: "n is too large: 9999",
    "n": "--size takes TAG=N, such as n=5, not 'n'",
    "dk=4": "there is no size named 'dk'; did you mean 'd_k'",
    "N=4": "there is no size named 'N'; did you mean 'n'",
    "h=4": "there is no size named 'h'",
    "__import__('os')=4": "expected a letter in a tag's name:\n    __import__('os')\n    ^",
    "=4": "expected a letter in a tag's name",
}


@pytest.mark.parametrize("size", WRONG_SIZES, ids=lambda size: size[:12])
def test_a_wrong_size_is_refused(size: str) -> None:
    assert WRONG_SIZES[size] in refused("scaled_dot_product", "--size", size)


def test_a_size_given_twice_is_refused() -> None:
    assert "twice" in refused("dot_product", "--size", "n=4", "--size", "n=5")


@pytest.mark.parametrize("size", ["n=1000000000", "n=999999999999999999"])
def test_sizes_beyond_memory_are_refused(size: str) -> None:
    message = refused("scaled_dot_product", "--size", size)
    assert size in message
    assert "memory" in message


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("scaled_dot_prodct", "did you mean 'scaled_dot_product'"),
        ("dot_product:rows", "there is no layout named 'rows'; did you mean 'row'"),
        ("dot_product:", "there is no layout named ''"),
        ("", "there is no formula named ''"),
        ("__import__('os')", "there is no formula named"),
    ],
)
def test_an_unknown_formula_is_refused(name: str, message: str) -> None:
    assert message in refused(name)


def test_options_that_need_a_file_are_refused_without_one() -> None:
    assert "--input" in refused("dot_product", "--token", "it")
    assert "--input" in refused("dot_product", "--arrays", "row")


def test_an_unknown_token_is_refused() -> None:
    message = refused("scaled_dot_product:row", "--input", str(HEAD), "--token", "cats")
    assert "there is no token named 'cats'; did you mean 'cat'" in message


def test_a_token_without_labels_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, **GOOD)
    assert "no tokens" in refused("dot_product:row", "--input", path, "--token", "it")


def test_a_size_that_the_file_contradicts_is_refused() -> None:
    message = refused("scaled_dot_product:row", "--input", str(HEAD), "--size", "n=9")
    assert "n = 9" in message
    assert "10" in message


# -- arrays and files


def changed(**arrays: Any) -> dict[str, Any]:
    return {**GOOD, **arrays}


WRONG_ARRAYS: dict[str, tuple[dict[str, Any], str]] = {
    "missing": (
        {"Q": GOOD["Q"], "k": GOOD["K"]},
        "lacks K, V; it holds Q, k (did you mean k",
    ),
    "empty": ({}, "lacks Q, K, V; it holds nothing"),
    "rank 1": (changed(Q=np.ones(4)), "Q has 1 axes"),
    "rank 3": (changed(K=np.ones((2, 7, 4))), "K has 3 axes"),
    "rank 0": (changed(V=np.float64(3)), "V has 0 axes"),
    "misfit": (changed(K=np.ones((7, 6))), "from Q's columns, but 6 from K's columns"),
    "values": (changed(V=np.ones((6, 3))), "from K's rows, but 6 from V's rows"),
    "object": (changed(Q=np.array([[1, "a"]], dtype=object)), "Q holds Python objects (pickled)"),
    "text": (changed(Q=np.array([["a"]])), "Q has dtype <U1"),
    "complex": (changed(Q=np.ones((5, 4), complex)), "Q has dtype complex128"),
    "integers": (changed(K=np.ones((7, 4), int)), "K has dtype int64"),
    "booleans": (changed(K=np.ones((7, 4), bool)), "K has dtype bool"),
    "records": (changed(K=np.zeros((7, 4), [("a", float)])), "K has dtype"),
    "other byte order": (changed(K=np.ones((7, 4), ">f8")), "K has dtype >f8"),
    "mixed": (changed(K=np.ones((7, 4), np.float32)), "float32"),
    "no queries": (changed(Q=np.ones((0, 4))), "Q is empty"),
    "no keys": (changed(K=np.ones((0, 4)), V=np.ones((0, 3))), "K is empty"),
    "no features": (changed(Q=np.ones((5, 0)), K=np.ones((7, 0))), "Q is empty"),
    "too large": (
        changed(Q=np.full((5, 4), 1e200), K=np.full((7, 4), 1e200)),
        "is not finite in float64",
    ),
    "nan": (changed(Q=np.full((5, 4), np.nan)), "Q holds values that are not finite"),
    "inf": (changed(V=np.full((7, 3), np.inf)), "V holds values that are not finite"),
    "weights": (changed(weights=np.ones((5, 6))), "from K's rows, but 6 from weights's columns"),
    "tokens": (changed(tokens=np.array(["a", "b"])), "but 2 from tokens"),
    "tokens as objects": (changed(tokens=np.array(["a"] * 5, dtype=object)), "tokens holds Python"),
    "tokens as numbers": (changed(tokens=np.arange(5)), "tokens has dtype int64"),
}


@pytest.mark.parametrize("case", WRONG_ARRAYS)
def test_wrong_arrays_are_refused(case: str, tmp_path: Path) -> None:
    arrays, message = WRONG_ARRAYS[case]
    assert message in refused("dot_product:row", "--input", saved(tmp_path, **arrays))


def test_a_cast_that_overflows_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, **changed(V=np.full((7, 3), 1e300)))
    message = refused("dot_product:row", "--input", path, "--dtype", "float32")
    assert message == "V holds values that are not finite as float32"


class Bomb:
    """Unpickling it leaves a mark."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("unpickled"),)


def archived(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name + ".npy", content)
    return buffer.getvalue()


def npy(array: np.ndarray[Any, Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


HEADER_OF_A_HUGE_ARRAY = npy(np.ones((5, 4))).replace(b"(5, 4)", b"(10000000000, 40000000)")[:128]

WRONG_FILES: dict[str, tuple[bytes, str]] = {
    "a pickle": (pickle.dumps({"Q": Bomb()}), "holds Python objects (pickled)"),
    "pickled members": (archived(Q=pickle.dumps(Bomb())), "Q is not an array"),
    "text": (b"Q = 1", "is not an .npz file"),
    "nothing": (b"", "is not an .npz file"),
    "a single array": (npy(np.ones((5, 4))), "is a single array (.npy)"),
    "a broken archive": (archived(Q=npy(np.ones((5, 4))))[:-30], "is not an .npz file"),
    "a broken array": (archived(Q=npy(np.ones((5, 4)))[:-8]), "Q cannot be read"),
    "a broken header": (
        archived(Q=b"\x93NUMPY\x01\x00\x10\x00{'descr': _"),
        "Q cannot be read",
    ),
    "a huge array": (archived(Q=HEADER_OF_A_HUGE_ARRAY), "Q cannot be read"),
}


@pytest.mark.parametrize("case", WRONG_FILES)
def test_a_wrong_file_is_refused(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    content, message = WRONG_FILES[case]
    Path("arrays.npz").write_bytes(content)
    assert message in refused("dot_product:row", "--input", "arrays.npz")
    assert not Path("unpickled").exists()


def test_a_damaged_member_is_refused(tmp_path: Path) -> None:
    whole = bytearray(archived(Q=npy(np.ones((5, 4)))))
    whole[150] ^= 0xFF  # inside the numbers: the checksum no longer fits
    path = tmp_path / "arrays.npz"
    path.write_bytes(whole)
    assert "Q cannot be read" in refused("dot_product:row", "--input", str(path))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert "there is no file" in refused("dot_product", "--input", str(tmp_path / "none.npz"))
    assert "there is no file" in refused("dot_product", "--input", str(tmp_path))
