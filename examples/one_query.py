"""One query and n candidates: attention as a soft multiplexer, in three steps.

Of n candidates it picks the one that is most like the query: inner products, softmax, weighted sum.
The second and the third best are mixed in, the less the further their scores fall behind.  With n
queries it is the same n times over.

Run it as `python examples/one_query.py`.
"""

import numpy as np

import symattn as sa

formula = sa.formula("single_query", layout="row")
print(f"{formula.title}\n{formula.program}\n")

# Four candidates that stand at right angles, and queries that are more and more like the second.
candidates = 2 * np.eye(4)
attend = sa.lambdify(formula.inputs, formula)
weigh = sa.lambdify(formula.inputs, formula.weights)
print("query                     weights")
for stretch in (0, 1, 3, 9):
    query = stretch * np.array([[0.1, 1.0, 0.5, 0.2]])
    weights, answer = weigh(query, candidates), attend(query, candidates)
    print(f"{np.round(query[0], 1)!s:<25} {np.round(weights[0], 3)}")
    assert np.allclose(answer, weights @ candidates)
assert weights[0, 1] > 0.999, "nearly the second candidate alone"

# It is attention with one query, and each of n queries takes the same three steps.
for name in ("three_steps_are_attention_with_one_query", "each_query_takes_three_steps"):
    theorem = sa.theorem(name)
    print(f"\n{theorem.prove().verdict}: {theorem.statement}")
    assert theorem.prove()
