"""One attention head of a real sentence encoder, recomputed from its formula.

The file holds head 11 of the last layer of all-MiniLM-L6-v2 on "The cat sat because it was tired.":
its queries, keys and values with tokens as rows, and the attention weights and outputs that the
model itself computed in float32.  Scaled dot-product attention reproduces them, in the row layout
of the arrays and, transposed, in the column layout; and the row of "it" shows what the word refers
to.

Run it as `python examples/minilm_head.py [FILE.npz]`.
"""

import sys
from pathlib import Path

import numpy as np

import symattn as sa

HERE = Path(__file__).resolve().parent
FILE = HERE.parent / "tests" / "data" / "minilm_layer5_head11.npz"


def main(path: Path) -> None:
    """Recompute the head of a file and print how far it is from what the model computed."""
    with np.load(path, allow_pickle=False) as head:
        tokens = [str(token) for token in head["tokens"]]
        q, k, v = head["Q"], head["K"], head["V"]
        weights, context = head["weights"], head["context"]

    row = sa.formula("scaled_dot_product", layout="row")
    print(f"{sa.text(row.expr)}  ({row.source})")
    attend = sa.lambdify(row.inputs, row)
    Q, K, _ = row.inputs
    weigh = sa.lambdify([Q, K], row.weights)
    ours = weigh(q, k)
    print(f"weights: largest difference {np.abs(ours - weights).max():.1e}")
    print(f"context: largest difference {np.abs(attend(q, k, v) - context).max():.1e}")
    assert np.abs(ours - weights).max() < 1e-6
    assert np.abs(attend(q, k, v) - context).max() < 2e-6

    # The same head with tokens as columns: every array is transposed, and so is the result.
    column = sa.formula("scaled_dot_product")
    print(f"\n{sa.text(column.expr)}  in column layout")
    transposed = sa.lambdify(column.inputs, column)(q.T, k.T, v.T)
    print(f"context: largest difference {np.abs(transposed.T - context).max():.1e}")
    assert np.abs(transposed.T - context).max() < 2e-6
    print(f"both layouts are {sa.prove(column, row).verdict} equal")

    print('\nWhere "it" looks:')
    for at in np.argsort(-ours[tokens.index("it")], kind="stable"):
        weight = ours[tokens.index("it"), at]
        print(f"  {tokens[at]:<8} {weight:.2f} {'█' * round(40 * weight)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FILE)
