"""Claims about softmax itself: shifts, normalisation, what its weights add up to."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from symattn.nodes import causal, exp, hadamard, max, sigmoid, window
from symattn.variants.claims.claim import Claim
from symattn.variants.claims.written import MASKS, Sides, Written, in_both, m, n, w

_NUMERICS = "Goodfellow, Bengio and Courville 2016, Deep Learning, section 4.1"


def _shifted(at: Written) -> Iterator[Sides]:
    S, y = at.scores(), at.matrix("y", 1, n)
    for label, mask in chain([("", None)], MASKS.items()):
        yield label, at.softmax(S + at.spread(y, m), mask), at.softmax(S, mask)


def _normalised(at: Written) -> Iterator[Sides]:
    S, A = at.scores(), at.scores(keys=n)
    yield "", at.shared_out(exp(S)), at.softmax(S)
    allowed = at.allowed(causal(), n, n)
    masked = at.shared_out(hadamard(exp(A), allowed))
    yield "causal", masked, at.softmax(A, causal())


def _maximum_subtracted(at: Written) -> Iterator[Sides]:
    S = at.scores()
    largest = at.spread(max(S, axis=at.layout.axis), m)
    yield "", at.shared_out(exp(S - largest)), at.softmax(S)


def _sum_to_one(at: Written) -> Iterator[Sides]:
    yield "", at.total(at.softmax(at.scores())), at.ones(1, n)


def _sum_where_allowed(at: Written) -> Iterator[Sides]:
    for label, mask in MASKS.items():
        some = max(at.allowed(mask, m, n), axis=at.layout.axis)
        yield label, at.total(at.softmax(at.scores(), mask)), some


def _sum_to_one_under_causal(at: Written) -> Iterator[Sides]:
    A = at.scores(keys=n)
    for label, mask in {"": causal(), "in a window": causal() & window(w)}.items():
        yield label, at.total(at.softmax(A, mask)), at.ones(1, n)


def _masked_numerators(at: Written) -> Iterator[Sides]:
    S = at.scores()
    for label, mask in MASKS.items():
        numerators = hadamard(exp(S), at.allowed(mask, m, n))
        sums = at.spread(at.total(numerators), m)
        yield label, hadamard(at.softmax(S, mask), sums), numerators


def _nothing_elsewhere(at: Written) -> Iterator[Sides]:
    for label, mask in MASKS.items():
        weights = at.softmax(at.scores(), mask)
        yield label, hadamard(weights, at.allowed(mask, m, n)), weights


def _two_keys(at: Written) -> Iterator[Sides]:
    a, b = at.matrix("a", 1, n), at.matrix("b", 1, n)
    yield "", at.softmax(at.stacked(a, b)), at.stacked(sigmoid(a - b), sigmoid(b - a))


def _equal_scores(at: Written) -> Iterator[Sides]:
    V, y = at.operands()[2], at.matrix("y", 1, n)
    mean = at.product(V, at.ones(m, n)) / m
    yield "", at.product(V, at.softmax(at.spread(y, m))), mean


CLAIMS = (
    Claim(
        name="softmax_ignores_a_shift",
        title="Softmax ignores a shift",
        statement="A number added to every score of a query leaves its weights as they are.",
        explanation="The factor e^y stands above and below the fraction bar, under any mask.",
        source=_NUMERICS,
        write=in_both(_shifted),
    ),
    Claim(
        name="softmax_is_normalised_exp",
        title="Softmax is exp over its sum",
        statement="Softmax is the exponential of the scores, divided by its sum over the keys.",
        explanation=(
            "Under a mask the sum is over the allowed keys; causally each query has itself, so "
            "that the sum is positive."
        ),
        source=_NUMERICS,
        write=in_both(_normalised),
    ),
    Claim(
        name="softmax_with_the_maximum_subtracted",
        title="The maximum may be subtracted first",
        statement=(
            "Subtracting the largest score of each query before the exponential gives the same "
            "weights."
        ),
        explanation="It is a shift; no exponential is above 1 then, and none overflows.",
        source=_NUMERICS,
        write=in_both(_maximum_subtracted),
    ),
    Claim(
        name="softmax_weights_sum_to_one",
        title="The weights of a query sum to one",
        statement="Without a mask the attention weights of every query sum to one.",
        explanation="Each is a part of the sum that it is divided by.",
        write=in_both(_sum_to_one),
    ),
    Claim(
        name="masked_weights_sum_to_one_where_a_key_is_allowed",
        title="Masked weights sum to one, or to zero",
        statement=(
            "Under a mask the weights of a query sum to one if it may attend to some key, and to "
            "zero if it may attend to none."
        ),
        explanation=(
            "The largest entry of the mask's 0/1 matrix over the keys says which; a query with no "
            "key gets zeros, not a division by zero."
        ),
        write=in_both(_sum_where_allowed),
    ),
    Claim(
        name="causal_weights_sum_to_one",
        title="Causal weights sum to one",
        statement="Under the causal mask of self-attention the weights of every query sum to one.",
        explanation="A query may always attend to its own position, so none is left without a key.",
        write=in_both(_sum_to_one_under_causal),
    ),
    Claim(
        name="masked_softmax_is_exp_of_the_allowed",
        title="A masked softmax shares out the exponentials that are allowed",
        statement=(
            "The weights under a mask, times the sum of the allowed exponentials, are the allowed "
            "exponentials."
        ),
        explanation="Written without a division, so that it also holds for a query with no key.",
        write=in_both(_masked_numerators),
    ),
    Claim(
        name="masked_weights_are_zero_where_not_allowed",
        title="A key that is not allowed has no weight",
        statement="Multiplying masked weights by the mask's 0/1 matrix changes nothing.",
        explanation="A mask selects before the softmax normalises.",
        write=in_both(_nothing_elsewhere),
    ),
    Claim(
        name="softmax_of_two_keys_is_a_sigmoid",
        title="Softmax of two scores is the sigmoid of their difference",
        statement="With two keys of scores a and b the weights are σ(a − b) and σ(b − a).",
        explanation="Divide e^a / (e^a + e^b) by e^a.",
        write=in_both(_two_keys),
    ),
    Claim(
        name="equal_scores_average_the_values",
        title="Equal scores average the values",
        statement="A query that scores all keys alike gets the mean of the values.",
        explanation="Each of the m weights is 1/m, whatever the score is.",
        write=in_both(_equal_scores),
    ),
)
