"""`symattn run`: real data, random data, arrays of a file."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import symattn as sa
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
    for line, bound in (("weights", 1e-6), ("context", 2e-6)):
        assert data["compared"][line]["largest_difference"] <= bound
        assert data["compared"][line]["tolerance"] == bound
    assert data["loops"]["largest_difference"] <= data["loops"]["tolerance"] == 2e-6
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
    assert data["loops"]["largest_difference"] < bound
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
    made = {"W_Q": 4, "W_K": 4, "W_V": 3}
    weights = {name: RANDOM.normal(size=(6, size)) for name, size in made.items()}
    path = saved(tmp_path, X=RANDOM.normal(size=(5, 6)), **weights)
    data = json.loads(run("self_attention:row", "--input", path, "--json").stdout)
    assert data["sizes"] == {"n": 5, "d": 6, "d_k": 4, "d_v": 3}
    assert data["agrees"]
    turned = run("self_attention:column", "--input", path, "--json")
    assert json.loads(turned.stdout)["sizes"] == data["sizes"]


def test_arrays_that_are_not_used_are_said(tmp_path: Path) -> None:
    extra = {"extra": np.ones(2), "meta": np.array([{}], dtype=object)}
    result = run("dot_product:row", "--input", saved(tmp_path, **GOOD, **extra))
    assert result.stderr.strip() == "not used: extra, meta"


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


# Several heads.


def json_of(*arguments: str) -> dict[str, Any]:
    return json.loads(run(*arguments, "--json").stdout)


def test_a_size_follows_from_those_that_a_relation_ties_it_to() -> None:
    for given, sizes in (
        ((), {"n": 3, "h": 4, "d_k": 5, "d_model": 20}),
        (("--size", "h=3", "--size", "d_k=4"), {"h": 3, "d_k": 4, "d_model": 12}),
        (("--size", "h=3", "--size", "d_model=6"), {"h": 3, "d_k": 2, "d_model": 6}),
    ):
        done = json_of("packed_multi_head:row", *given)
        assert sizes.items() <= done["sizes"].items()
        assert done["agrees"]
    refused = run("packed_multi_head", "--size", "h=5", "--size", "d_model=12", status=2)
    assert "12 divided by 5 leaves 2" in refused.output


@pytest.mark.parametrize("layout", ["column", "row"])
@pytest.mark.parametrize(
    "name", [name for name in sa.formulas() if "head" in name or "_quer" in name]
)
def test_formulas_of_several_heads_run(name: str, layout: str) -> None:
    done = json_of(f"{name}:{layout}")
    assert done["agrees"]
    assert len(set(done["sizes"].values())) == len(done["sizes"])


def test_a_file_with_the_arrays_of_several_heads(tmp_path: Path) -> None:
    """In the other layout every matrix of a family is transposed, and no heads are mixed up."""
    formula = sa.formula("multi_head_attention", "row")
    sizes = {"n": 5, "d_model": 6, "h": 2, "d_k": 3, "d_v": 4}
    random = np.random.default_rng(0)
    arrays = {
        given.name.replace("^", "_"): random.normal(size=[s.value(sizes) for s in given.sizes])
        for given in formula.inputs
    }
    results = {
        "weights": sa.lambdify(formula.weights.inputs(), formula.weights),
        "context": sa.lambdify(formula.context.inputs(), formula.context),
        "output": sa.lambdify(formula.inputs, formula),
    }
    held: dict[str, Any] = {**arrays, "tokens": np.array(list("abcde"))}
    for name, function in results.items():
        taken = [str(given) for given in function.inputs]
        held[name] = function(*(arrays[each] for each in taken))
    np.savez(tmp_path / "heads.npz", **held)
    for layout in ("row", "column"):
        done = json_of(f"multi_head_attention:{layout}", "--input", str(tmp_path / "heads.npz"))
        assert done["agrees"]
        assert set(done["compared"]) == {"weights", "context", "output"}
        assert done["arrays_layout"] == "row"
        assert done["sizes"] == sizes
        mean = held["weights"].mean(axis=0)  # one table a head would be several
        np.testing.assert_allclose([row["weights"] for row in done["weights"]], mean, atol=1e-12)
    flat: dict[str, Any] = {**arrays, "W_Q": arrays["W_Q"][0]}
    np.savez(tmp_path / "flat.npz", **flat)
    refused = run("multi_head_attention:row", "--input", str(tmp_path / "flat.npz"), status=2)
    assert "W_Q has 2 axes, of sizes (6, 3); it takes (h, d_model, d_k)" in refused.output
