"""`score_code`: the score of one query and one key as a module, to read or to put into a kernel.

What a kernel is generated from can be had by itself: as `score_mod` and `mask_mod` for torch's flex
attention, or as functions in Triton or CUDA C++.  Comments say what every name stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from symattn.codegen.blocked import Attended, blocked_program
from symattn.codegen.generated import selecting, taken_apart
from symattn.codegen.gpu.dialects import CUDA, DIALECTS, TRITON
from symattn.codegen.gpu.flex import flex_module
from symattn.codegen.gpu.leaves import PairSumLeaf
from symattn.codegen.gpu.score_text import ScoreText, score_text
from symattn.codegen.gpu.standing import reads, stand_for
from symattn.errors import NotSupportedError
from symattn.nodes import Program
from symattn.nodes.depth import shallow_enough
from symattn.nodes.finite import as_finite
from symattn.notation import text
from symattn.tags import named


@shallow_enough("generating code")
def score_code(formula: Any, target: str = "flex") -> str:
    """Return the source of a module that computes the score of one query and one key.

    >>> import symattn as sa
    >>> f = sa.formula("alibi", layout="row")
    >>> print(sa.score_code(f, target="cuda"))
    // The score of one query and one key in softmax(Q Kᵀ / √d_k + [-slope (i - j)]_{i,j}) V
    // s0: the query's row of Q times the key's row of K, times c0
    // c0: 1 / √d_k
    // c1: -slope
    // i: the position of the query, from 0
    // j: the position of the key
    typedef float real;
    <BLANKLINE>
    __device__ __forceinline__ real score(real s0, real c1, long long i, long long j) {
        return s0 + c1 * real(i - j);
    }
    <BLANKLINE>

    ``formula`` is a formula, a `Program` or an entry of the catalogue with one softmax, whose
    weights are multiplied with values.  ``target`` is ``"flex"``: a function of its scalars and
    sizes that returns the ``scale``, ``score_mod`` and ``mask_mod`` for
    ``torch.nn.attention.flex_attention`` (None where there is nothing to modify); ``"triton"`` and
    ``"cuda"``: functions ``score`` and, under a mask, ``seen``, which tells whether the query
    may attend to the key.

    Raises `UnknownNameError` for another target, `NotAnOperandError` and `TextRefusedError` for
    what is no formula, `MinusInfinityError` for one that ends with an additive mask, and
    `NotSupportedError`, with the reason, for scores that no function of one pair computes, and for
    flex attention where they do not come from one inner product.
    """
    written = named("target", target, _MODULES)
    taken, _, _ = taken_apart(formula, "score_code")
    as_finite(taken.result, "score_code")
    return written(_the_weighted_sum(selecting(taken)))


def _the_weighted_sum(program: Program) -> Attended:
    """Return the one weighted sum of a program."""
    sums = [node for node in blocked_program(program).result.walk() if isinstance(node, Attended)]
    if len(sums) != 1:
        found = f"{len(sums)} softmaxes" if sums else "weights that are no softmax"
        raise NotSupportedError(f"one score where there are {found}")
    return sums[0]


def _cuda_module(attended: Attended) -> str:
    """Return functions in CUDA C++."""
    written = score_text(attended, CUDA)

    def function(kind: str, name: str, arguments: Mapping[str, str], code: str) -> str:
        given = ", ".join(f"{_CPP_TYPES[what]} {one}" for one, what in arguments.items())
        header = f"__device__ __forceinline__ {_CPP_TYPES[kind]} {name}({given})"
        return f"{header} {{\n    return {code};\n}}\n"

    first = f"// The score of one query and one key in {text(attended.product())}"
    remarks = [f"// {name}: {what}" for name, what in stand_for(attended, written).items()]
    head = "\n".join([first, *remarks, "typedef float real;", ""])
    helpers = [written.helpers] if written.helpers else []
    return "\n".join([head, *helpers, *_functions(written, function)])


def _triton_module(attended: Attended) -> str:
    """Return functions in Triton."""
    written = score_text(attended, TRITON)

    def function(kind: str, name: str, arguments: Mapping[str, str], code: str) -> str:
        return f"@triton.jit\ndef {name}({', '.join(arguments)}):\n    return {code}\n"

    first = f"# The score of one query and one key in {text(attended.product())}"
    remarks = [f"# {name}: {what}" for name, what in stand_for(attended, written).items()]
    imports = "import triton\nimport triton.language as tl\n"
    parts = ["\n".join([first, *remarks, imports]), *filter(None, written.helpers.split("\n\n"))]
    parts += _functions(written, function)
    return "\n\n".join(part.rstrip("\n") + "\n" for part in parts)


_CPP_TYPES = {"number": "real", "whole": "long long", "truth": "bool"}

_Function = Callable[[str, str, Mapping[str, str], str], str]


def _functions(written: ScoreText, function: _Function) -> Iterator[str]:
    """Yield the functions of a module: terms of sums, the score, the mask, changed weights."""
    for name, leaf in written.leaves.items():
        if isinstance(leaf, PairSumLeaf):
            arguments = {**dict.fromkeys(leaf.vectors, "number"), **reads(written, leaf.body)}
            yield function("number", f"term_{name}", arguments, leaf.body)
    yield function("number", "score", reads(written, written.score), written.score)
    if written.seen:
        yield function("truth", "seen", reads(written, written.seen), written.seen)
    if written.reweigh:
        arguments = {"p": "number", **reads(written, written.reweigh)}
        yield function("number", "reweigh", arguments, written.reweigh)


_MODULES: Mapping[str, Callable[[Attended], str]] = MappingProxyType(
    dict(zip(DIALECTS, (flex_module, _triton_module, _cuda_module), strict=True))
)
