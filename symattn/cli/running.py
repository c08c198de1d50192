"""`symattn run`: the generated function on random arrays or those of a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import click
import numpy as np

from symattn.cli.arguments import formula_named, scalars_given, sizes_completed, sizes_given
from symattn.cli.arrays import COMPARED, LABELS, Array, Arrays, arrays_of_file, random_arrays
from symattn.cli.checking import Comparison, compared, compared_with_loops, part_computed
from symattn.cli.printing import columns, print_json, printable, section
from symattn.cli.refusals import Refused
from symattn.nodes import Node
from symattn.notation.names import identifier
from symattn.notation.terminal import text
from symattn.tags import named
from symattn.variants import Formula

# A wider table of weights would not fit on a terminal.
_WIDEST_TABLE = 16
_LONGEST_LABEL = 10


@dataclass(frozen=True, slots=True)
class _Run:
    """What a run found."""

    formula: Formula
    arrays: Arrays
    origin: str
    result: Array
    loops: Comparison | None
    compared: Mapping[str, Comparison]
    weights: Array | None
    """One row a query, the mean over all heads; only where there are labels."""
    shown: Sequence[int]
    """The queries whose weights are shown."""

    @property
    def fine(self) -> bool:
        """Whether nothing differs by more than rounding explains."""
        found = [*self.compared.values(), *([self.loops] if self.loops else [])]
        return all(comparison.agrees for comparison in found)


def run_formula(
    *,
    formula: str,
    sizes: Sequence[str],
    scalars: Sequence[str],
    path: str | None,
    arrays: str | None,
    tokens: Sequence[str],
    seed: int,
    dtype: str | None,
    as_json: bool,
) -> bool:
    """Run a formula, print what came out; return whether it agrees with what it should be."""
    known = formula_named(formula)
    tags = [dim.name for dim in known.dims]
    given = sizes_given(sizes, tags)
    numbers = scalars_given(scalars, [scalar.name for scalar in known.scalars])
    if path is None:
        if tokens or arrays:
            raise Refused(f"{'--token' if tokens else '--arrays'} goes with --input FILE.npz")
        chosen = [tag for tag in tags if tag not in given]
        completed = sizes_completed(given, tags, known.relations)
        values = random_arrays(known, completed, seed, dtype or "float64", numbers)
        origin = f"random, standard normal, seed {seed}"
        if chosen:
            click.echo(
                f"chose sizes for {', '.join(chosen)}; --size {chosen[0]}=N sets one", err=True
            )
    else:
        missing = [scalar.name for scalar in known.scalars if scalar.name not in numbers]
        if missing:
            raise Refused(f"{known.name} takes a number: --scalar {missing[0]}=NUMBER")
        values = replace(arrays_of_file(known, path, given, arrays, dtype), scalars=numbers)
        origin = printable(path)
        if values.layout != known.layout:
            click.echo(
                f"the arrays of the file are in {values.layout} layout and are transposed", err=True
            )
        if values.unused:
            click.echo(f"not used: {', '.join(values.unused)}", err=True)
    found = _computed(known, values, origin, tokens)
    if as_json:
        print_json(_as_data(found))
    else:
        click.echo(_as_text(found))
    return found.fine


def _computed(formula: Formula, arrays: Arrays, origin: str, tokens: Sequence[str]) -> _Run:
    shown = _queries(arrays.labels, tokens)
    given = (arrays.inputs, arrays.sizes, arrays.scalars)
    parts: dict[Node, Array] = {}

    def part(node: Node) -> Array:
        if node not in parts:
            parts[node] = part_computed(formula, node, *given)
        return parts[node]

    result, scores = part(formula.expr), part(formula.scores)
    comparisons = {
        name: compared(part(COMPARED[name](formula)), theirs, name, scores)
        for name, theirs in arrays.compared.items()
    }
    weights = None
    if arrays.labels:
        weights = part(formula.weights)
        weights = weights.swapaxes(-1, -2) if formula.layout == "column" else weights
        weights = weights.reshape(-1, *weights.shape[-2:]).mean(axis=0)
    loops = compared_with_loops(formula, result, scores, *given)
    return _Run(formula, arrays, origin, result, loops, comparisons, weights, shown)


def _queries(labels: Sequence[str], tokens: Sequence[str]) -> list[int]:
    """Return the positions of these tokens, or of all."""
    if not tokens:
        return list(range(len(labels)))
    if not labels:
        raise Refused(f"the file has no {LABELS}, so --token finds none")
    for token in tokens:
        named("token", token, dict.fromkeys(labels))
    return [at for at, label in enumerate(labels) if label in tokens]


def _as_text(run: _Run) -> str:
    formula, arrays = run.formula, run.arrays
    shapes = [
        f"{identifier(symbol.label)} {'×'.join(map(str, array.shape))}"
        for symbol, array in arrays.inputs.items()
    ]
    dtype = next(iter(arrays.inputs.values())).dtype
    rows = [
        ("sizes", "  ".join(f"{tag}={size}" for tag, size in arrays.sizes.items())),
        ("inputs", f"{', '.join(shapes)}  ({dtype}; {run.origin})"),
        *(("scalar", f"{name}={number:.6g}") for name, number in arrays.scalars.items()),
        ("result", f"{'×'.join(map(str, run.result.shape))}  ({run.result.dtype})"),
    ]
    differences = [("float64 loops over the entry formula", run.loops)]
    differences += [(f"{name} of the file", found) for name, found in run.compared.items()]
    parts = [
        repr(formula),
        "\n".join(columns(rows)),
        section(
            "Largest difference from",
            columns([(name, *_difference(found)) for name, found in differences]),
        ),
    ]
    if run.weights is not None:
        parts.append(_weights_as_text(run, run.weights))
    return "\n\n".join(parts)


def _difference(found: Comparison | None) -> tuple[str, str]:
    if found is None:
        return "not compared", "the loops would take too long at these sizes"
    what = "fits" if found.agrees else "DIFFERS"
    some = f", {found.compared} of {found.entries} entries" * (found.compared < found.entries)
    return f"{found.difference:.1e}", f"{what} ({found.tolerance:.0e} allowed{some})"


def _weights_as_text(run: _Run, weights: Array) -> str:
    labels = [_label(label) for label in run.arrays.labels]
    keys = _key_labels(labels, weights.shape[1])
    if len(keys) <= _WIDEST_TABLE:
        rows: list[tuple[str, ...]] = [("", *keys, "strongest")]
        for at in run.shown:
            cells = [f"{weight:.2f}" for weight in weights[at]]
            rows.append((labels[at], *cells, *(keys[key] for key in _strongest(weights[at], 1))))
        mean = ", the mean over all heads" if run.formula.weights.indices else ""
        return section(f"Weights: one row a query, one column a key{mean}", columns(rows))
    lines = [
        (labels[at], *(f"{keys[key]} {weights[at, key]:.2f}" for key in _strongest(weights[at])))
        for at in run.shown
    ]
    return section("The strongest keys of each query", columns(lines))


def _strongest(weights: Array, number: int = 5) -> list[int]:
    return [int(key) for key in np.argsort(-weights, kind="stable")[:number]]


def _label(label: str) -> str:
    label = printable(label)
    return label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 1] + "…"


def _key_labels(labels: Sequence[str], keys: int) -> list[str]:
    return list(labels) if len(labels) == keys else [str(key) for key in range(keys)]


def _as_data(run: _Run) -> dict[str, object]:
    formula, arrays = run.formula, run.arrays
    data: dict[str, object] = {
        "name": formula.name,
        "layout": formula.layout,
        "formula": text(formula.expr),
        "sizes": arrays.sizes,
        "inputs": {
            identifier(symbol.label): {"shape": list(array.shape), "dtype": str(array.dtype)}
            for symbol, array in arrays.inputs.items()
        },
        "scalars": dict(arrays.scalars),
        "origin": run.origin,
        "arrays_layout": arrays.layout,
        "result": {"shape": list(run.result.shape), "dtype": str(run.result.dtype)},
        "loops": None if run.loops is None else _comparison_as_data(run.loops),
        "compared": {name: _comparison_as_data(found) for name, found in run.compared.items()},
        "agrees": run.fine,
    }
    if run.weights is not None:
        data["keys"] = _key_labels(arrays.labels, run.weights.shape[1])
        data["weights"] = [
            {"query": arrays.labels[at], "weights": [float(w) for w in run.weights[at]]}
            for at in run.shown
        ]
    return data


def _comparison_as_data(found: Comparison) -> dict[str, object]:
    return {
        "largest_difference": found.difference,
        "tolerance": found.tolerance,
        "agrees": found.agrees,
        "compared_entries": found.compared,
        "entries": found.entries,
    }
