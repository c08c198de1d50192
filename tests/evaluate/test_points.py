"""Points: sizes that hide nothing, inputs with nothing in common, all from a seed."""

from fractions import Fraction
from random import Random

import pytest

import symattn.nodes as sa
from symattn.errors import SizeError
from symattn.evaluate import Entries, random_inputs, random_scalars, random_sizes, sizes_in
from symattn.tags import Relations
from symattn.tags.grammar import parse_sizes

SEEDS = range(25)


def drawn(text: str, relations: str = "", seed: int = 0, **options: float) -> dict[str, int]:
    known = Relations().declare(relations) if relations else Relations()
    return random_sizes(parse_sizes(text), known, Random(seed), **options)  # pyright: ignore


@pytest.mark.parametrize("seed", SEEDS)
def test_sizes_are_small_and_pairwise_different(seed: int) -> None:
    sizes = drawn("n, m, d_k, d_v, h", seed=seed)
    assert len(set(sizes.values())) == 5
    assert set(sizes.values()) <= set(range(2, 8))


@pytest.mark.parametrize("seed", SEEDS)
def test_relations_hold_and_force_nothing_else(seed: int) -> None:
    sizes = drawn("n, m, d_model, d_v", "d_model = h*d_k, m = n, d_v = d_k", seed)
    assert sizes["d_model"] == sizes["h"] * sizes["d_k"]
    assert sizes["m"] == sizes["n"]
    assert sizes["d_v"] == sizes["d_k"]
    assert len({sizes[tag] for tag in ("n", "d_k", "h", "d_model")}) == 4


@pytest.mark.parametrize("seed", SEEDS)
def test_divisions_are_exact_and_differences_are_at_least_one(seed: int) -> None:
    sizes = drawn("d_model, d_model//h, n-m, (2*n)//r", seed=seed)
    assert sizes["d_model"] % sizes["h"] == 0
    assert sizes["n"] > sizes["m"]
    assert 2 * sizes["n"] % sizes["r"] == 0


def test_tags_that_multiply_come_out_smallest() -> None:
    for seed in SEEDS:
        sizes = drawn("n, m, h*d_k, d_x, d_y", seed=seed)
        assert {sizes["h"], sizes["d_k"]} == {2, 3}


def test_sizes_of_one_are_drawn_on_request() -> None:
    least = [drawn("n, m, d", seed=seed, least=1) for seed in SEEDS]
    assert any(1 in sizes.values() for sizes in least)
    assert all(len(set(sizes.values())) == 3 for sizes in least)
    assert any(list(drawn("n, m, d", seed=seed, ones=0.5).values()).count(1) > 1 for seed in SEEDS)


def test_sizes_that_cannot_be_are_an_error() -> None:
    with pytest.raises(SizeError, match="no sizes satisfy"):
        drawn("n-m, m-n")


def test_every_size_of_a_formula_is_looked_at() -> None:
    d, n, h = sa.dims("d n h")
    node = sa.matrix("X", 2 * d, n) @ sa.ones(n, n + 1) / sa.sqrt(h)
    assert {str(size) for size in sizes_in([node])} >= {"2*d", "n", "n+1", "h"}


def values(seed: int, entries: Entries) -> list[Fraction]:
    m, n = sa.dims("m n")
    symbols = [sa.matrix("A", m, n), sa.matrix("B", n, m)]
    drawn = random_inputs(symbols, {"m": 5, "n": 4}, Random(seed), entries)
    assert [len(drawn[symbol]) for symbol in symbols] == [5, 4]
    return [entry for rows in drawn.values() for row in rows for entry in row]


@pytest.mark.parametrize("entries", Entries)
def test_entries_are_small_and_not_zero(entries: Entries) -> None:
    found = values(1, entries)
    assert len(found) == 40
    assert all(0 < abs(entry) <= 2 for entry in found)
    assert values(1, entries) == found != values(2, entries)


def test_each_way_of_drawing_does_what_it_says() -> None:
    assert all((2 * entry).denominator == 1 for entry in values(3, Entries.READABLE))
    assert all(entry.denominator > 2 for entry in values(3, Entries.GENERIC))
    assert min(values(3, Entries.GENERIC)) < 0 < max(values(3, Entries.GENERIC))
    assert min(values(3, Entries.POSITIVE)) > 0
    # Twenty entries for each of the two inputs.
    found = [values(seed, Entries.ONE_SIGN) for seed in SEEDS]
    signs = [[{entry > 0 for entry in part} for part in (v[:20], v[20:])] for v in found]
    assert all(len(part) == 1 for parts in signs for part in parts)
    assert any(parts[0] != parts[1] for parts in signs)


def test_one_name_with_sizes_that_a_relation_equates_is_one_matrix() -> None:
    m, n = sa.dims("m n")
    first, second, other = sa.matrix("A", m, n), sa.matrix("A", n, n), sa.matrix("A", n, 2)
    same = random_inputs(
        [first, second, other],
        {"m": 3, "n": 3},
        Random(0),
        relations=Relations().declare("m = n"),
    )
    assert same[first] == same[second]
    assert len(same[other][0]) == 2


def test_scalars_keep_the_sign_that_was_declared() -> None:
    symbols = [sa.scalar("c"), sa.scalar("tau", positive=True)]
    found = [random_scalars(symbols, Random(seed), Entries.READABLE) for seed in SEEDS]
    assert all(scalars["tau"] > 0 for scalars in found)
    assert {scalars["c"] > 0 for scalars in found} == {True, False}
    assert all(abs(value) not in (0, 1) for scalars in found for value in scalars.values())
