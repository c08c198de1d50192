"""`symattn run`: real data, random data, and every way of calling it wrongly."""

import io
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from symattn.cli import main

HEAD = Path(__file__).parents[1] / "data" / "minilm_layer5_head11.npz"
RANDOM = np.random.default_rng(5)
GOOD = {
    "Q": RANDOM.normal(size=(5, 4)),
    "K": RANDOM.normal(size=(7, 4)),
    "V": RANDOM.normal(size=(7, 3)),
}


def run(*arguments: str, status: int = 0) -> Result:
    """What `symattn run` answers; it never ends in a traceback."""
    result = CliRunner().invoke(main, ["run", *arguments])
    assert result.exit_code == status, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def refused(*arguments: str) -> str:
    """The message of a call that is wrong: a few lines on standard error, nothing else."""
    result = run(*arguments, status=2)
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ") or "\nError: " in result.stderr
    message = result.stderr.partition("Error: ")[2].strip()
    assert message.count("\n") <= 3
    assert "Traceback" not in message
    return message


def saved(tmp_path: Path, **arrays: Any) -> str:
    path = tmp_path / "arrays.npz"
    np.savez(path, **arrays)
    return str(path)


# -- the real head


@pytest.mark.parametrize("layout", ["row", "column"])
def test_the_real_head_is_reproduced(layout: str) -> None:
    result = run(f"scaled_dot_product:{layout}", "--input", str(HEAD), "--json")
    data = json.loads(result.stdout)
    assert data["agrees"]
    assert data["compared"]["weights"]["largest_difference"] < 1e-6
    assert data["compared"]["context"]["largest_difference"] < 2e-6
    assert data["loops"]["largest_difference"] < 1e-5
    assert data["loops"]["compared_entries"] == data["loops"]["entries"] == 320
    assert data["sizes"] == {"n": 10, "m": 10, "d_k": 32, "d_v": 32}
    assert data["arrays_layout"] == "row"
    assert ("transposed" in result.stderr) is (layout == "column")
    [it] = [row["weights"] for row in data["weights"] if row["query"] == "it"]
    assert max(it) == it[data["keys"].index("cat")] == pytest.approx(0.69, abs=0.005)
    assert sum(it) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("layout", ["row", "column"])
def test_the_row_of_a_token_is_shown(layout: str) -> None:
    arguments = (f"scaled_dot_product:{layout}", "--input", str(HEAD))
    everything = [line.split() for line in run(*arguments).stdout.splitlines()]
    header, row = run(*arguments, "--token", "it").stdout.splitlines()[-2:]
    assert header.split() in everything
    assert row.split() in everything
    assert header.split() == [str(t) for t in np.load(HEAD)["tokens"]] + ["strongest"]
    cells = row.split()
    assert cells[0] == "it"
    assert cells[1 + header.split().index("cat")] == "0.69"
    assert cells[-1] == "cat"


def test_a_wrong_formula_does_not_reproduce_it() -> None:
    """So the test above could fail: without its scale the head is another one."""
    result = run("dot_product:row", "--input", str(HEAD), "--json", status=1)
    data = json.loads(result.stdout)
    assert not data["agrees"]
    assert data["loops"]["agrees"]
    assert data["compared"]["weights"]["largest_difference"] > 0.1


def test_float64_may_be_asked_for() -> None:
    result = run("scaled_dot_product:row", "--input", str(HEAD), "--dtype", "float64", "--json")
    data = json.loads(result.stdout)
    assert data["result"]["dtype"] == "float64"
    assert data["loops"]["largest_difference"] < 1e-12


# -- random arrays


@pytest.mark.parametrize(
    "name",
    ["dot_product", "luong_general", "scaled_dot_product", "self_attention", "cross_attention"],
)
@pytest.mark.parametrize("layout", ["row", "column"])
@pytest.mark.parametrize(("dtype", "bound"), [("float64", 1e-12), ("float32", 1e-5)])
def test_random_arrays_agree_with_the_loops(
    name: str, layout: str, dtype: str, bound: float
) -> None:
    data = json.loads(run(f"{name}:{layout}", "--dtype", dtype, "--json").stdout)
    assert data["agrees"]
    assert data["loops"]["largest_difference"] < bound * 10
    assert data["result"]["dtype"] == dtype
    sizes = list(data["sizes"].values())
    assert len(set(sizes)) == len(sizes)


def test_sizes_are_those_given() -> None:
    arguments = ["--size", "n=5", "--size", "m=7", "--size", "d_k=4", "--size", "d_v=3"]
    result = run("scaled_dot_product", *arguments)
    assert "Q 4×5, K 4×7, V 3×7" in result.stdout
    assert "result  3×5" in result.stdout
    assert result.stderr == ""


def test_sizes_that_are_chosen_are_said() -> None:
    result = run("scaled_dot_product", "--size", "n=5")
    assert "d_k, m, d_v" in result.stderr
    assert "n=5" in result.stdout


def test_a_seed_gives_the_same_arrays() -> None:
    first, again, other = (
        run("dot_product", "--dtype", "float32", "--seed", seed, "--json").stdout for seed in "112"
    )
    assert first == again
    assert first != other


def test_of_a_large_result_some_entries_are_compared() -> None:
    sizes = ["--size", "n=300", "--size", "m=400", "--size", "d_k=32", "--size", "d_v=16"]
    data = json.loads(run("scaled_dot_product", *sizes, "--json").stdout)
    assert data["loops"]["agrees"]
    assert data["loops"]["entries"] == 300 * 16
    assert data["loops"]["compared_entries"] == 3


def test_what_the_loops_cannot_reach_is_said() -> None:
    sizes = ["--size", "n=2", "--size", "m=50000", "--size", "d_k=200"]
    result = run("scaled_dot_product", *sizes)
    assert "not compared" in result.stdout


# -- arrays of a file


def test_row_arrays_of_a_column_formula_are_transposed(tmp_path: Path) -> None:
    path = saved(tmp_path, **GOOD)
    data = json.loads(run("dot_product:row", "--input", path, "--json").stdout)
    assert data["sizes"] == {"n": 5, "m": 7, "d_k": 4, "d_v": 3}
    result = run("dot_product:column", "--input", path, "--json")
    assert json.loads(result.stdout)["sizes"] == data["sizes"]
    assert "in row layout and are transposed" in result.stderr


def test_column_arrays_of_a_column_formula_are_taken_as_they_are(tmp_path: Path) -> None:
    path = saved(tmp_path, **{name: array.T for name, array in GOOD.items()})
    result = run("dot_product:column", "--input", path)
    assert result.stderr == ""
    assert "result  3×5" in result.stdout


def test_the_layout_of_the_arrays_may_be_said(tmp_path: Path) -> None:
    square = {name: RANDOM.normal(size=(4, 4)) for name in "QKV"}
    path = saved(tmp_path, **square)
    own = json.loads(run("dot_product", "--input", path, "--json").stdout)
    said = json.loads(run("dot_product", "--input", path, "--arrays", "row", "--json").stdout)
    assert (own["arrays_layout"], said["arrays_layout"]) == ("column", "row")


def test_weights_are_shared_or_transposed_as_the_formula_says(tmp_path: Path) -> None:
    """W of the general score is the same matrix in both layouts."""
    path = saved(tmp_path, **GOOD, W=RANDOM.normal(size=(4, 4)), output=np.zeros((5, 3)))
    row = run("luong_general:row", "--input", path, "--json", status=1)
    column = run("luong_general:column", "--input", path, "--json", status=1)
    differences = [
        json.loads(result.stdout)["compared"]["output"]["largest_difference"]
        for result in (row, column)
    ]
    assert differences[0] == pytest.approx(differences[1], rel=1e-12)


def test_projections_are_given_by_identifier(tmp_path: Path) -> None:
    weights = {f"W_{name}": RANDOM.normal(size=(6, rows)) for name, rows in zip("QKV", (4, 4, 3))}
    path = saved(tmp_path, X=RANDOM.normal(size=(5, 6)), **weights)
    data = json.loads(run("self_attention:row", "--input", path, "--json").stdout)
    assert data["sizes"] == {"n": 5, "d": 6, "d_k": 4, "d_v": 3}
    assert data["agrees"]
    turned = run("self_attention:column", "--input", path, "--json")
    assert json.loads(turned.stdout)["sizes"] == data["sizes"]


def test_arrays_that_are_not_used_are_said(tmp_path: Path) -> None:
    result = run("dot_product:row", "--input", saved(tmp_path, **GOOD, extra=np.ones(2)))
    assert result.stderr.strip() == "not used: extra"


def test_labels_of_another_number_of_keys_number_the_keys(tmp_path: Path) -> None:
    path = saved(tmp_path, **GOOD, tokens=np.array(list("abcde")))
    data = json.loads(run("dot_product:row", "--input", path, "--json").stdout)
    assert data["keys"] == [str(key) for key in range(7)]
    assert [row["query"] for row in data["weights"]] == list("abcde")


def test_labels_do_not_reach_the_terminal_raw(tmp_path: Path) -> None:
    labels = np.array(["a\x1b[31m", "a very long token", "c", "d\n", "e"])
    shown = run("dot_product:row", "--input", saved(tmp_path, **GOOD, tokens=labels)).stdout
    assert "\x1b" not in shown
    assert "a very lo…" in shown


def test_many_keys_are_shown_by_the_strongest(tmp_path: Path) -> None:
    arrays = {name: RANDOM.normal(size=(20, 4)) for name in "QKV"}
    labels = np.array([f"t{k}" for k in range(20)])
    shown = run("dot_product:row", "--input", saved(tmp_path, **arrays, tokens=labels)).stdout
    assert "The strongest keys of each query" in shown


# -- calls that are wrong

WRONG_SIZES = {
    "n=0": "n must be a positive integer, but is 0",
    "n=-3": "n must be a positive integer, but is -3",
    "n=2.5": "n must be a positive integer, but is 2.5",
    "n=True": "n must be a positive integer, but is True",
    "n=": "n must be a positive integer",
    "n=10**9": "n must be a positive integer, but is 10**9",
    "n=1e3": "n must be a positive integer, but is 1e3",
    "n=５": "n must be a positive integer, but is ５",
    "n=" + "9" * 5000: "n must be a positive integer",
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


def changed(**arrays: Any) -> dict[str, Any]:
    return {**GOOD, **arrays}


WRONG_ARRAYS: dict[str, tuple[dict[str, Any], str]] = {
    "missing": ({"Q": GOOD["Q"], "k": GOOD["K"]}, "lacks K, V; it holds Q, k (did you mean k for"),
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
        archived(Q=b"\x93NUMPY\x01\x00\x10\x00{'descr': __impo"),
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
