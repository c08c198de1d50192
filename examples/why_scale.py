"""Why attention divides its scores by √d_k: the derivation, and the two experiments behind it.

A score q·k is a sum of d_k products, so it spreads like √d_k.  Large scores saturate the softmax:
nearly all weight goes to one key, and the Jacobian, through which gradients pass, goes to zero,
unless two scores are tied for the maximum.

Run it as `python examples/why_scale.py`.
"""

import numpy as np

import symattn as sa

scale = sa.derivation("variance_of_scores")
print(scale.text())
print(f"\n{scale.check().text()}\n")

# The same experiment without this library, as a person would write it.
random = np.random.default_rng(seed=0)
for d_k, expected in ((4, 2.0), (64, 8.0), (512, 22.6)):
    q, k = random.normal(size=(10_000, d_k)), random.normal(size=(10_000, d_k))
    deviation = (q * k).sum(axis=-1).std()
    print(f"d_k = {d_k:<3}  deviation of q·k {deviation:5.2f}, derived {np.sqrt(d_k):5.2f}")
    assert abs(deviation - expected) < 0.05 * expected

saturation = sa.derivation("saturation")
found = saturation.experiment(scores=(2, 1, 0.5), tied=(2, 2, 0.5), scales=(1, 8, 64))
print(f"\n{saturation.title}\n{found.text()}")
assert found
assert found.rows[0][2] == "0.6285 0.2312 0.1402"  # nice and spread out
assert found.rows[1][2] == "0.9997 0.0003 0.0000"  # basically one-hot

# Gradients that reach the scores through the softmax are J times those of the weights.
s = sa.vector("s", "m")
softmax = sa.lambdify([s], sa.softmax(s, axis=0))
step = 1e-6
for t in (1, 8):
    at = t * np.array([[2.0], [1.0], [0.5]])
    moved = at + np.array([[step], [0], [0]])
    slope = ((softmax(moved) - softmax(at)) / step).ravel()
    print(f"t = {t}: change of the weights by the first score {np.round(slope, 4)}")
