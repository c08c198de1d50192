"""What SymPy's matrix expressions offer and formulas do not have, each with a pointer.

`MatrixExpr` gives its subclasses about two hundred public attributes.  Those that would evaluate,
simplify, reorder, differentiate or solve are refused by name here, because their answers would be
wrong or would lose the tags; a contract test keeps the list complete.
"""

from __future__ import annotations

from typing import Any

from symattn.errors import OperationRefusedError

_AS_WRITTEN = "a formula stays as it was written"
_NO_INVERSE = "attention formulas have no matrix inverse; 1/x of every entry is sa.reciprocal(X)"
_SCALARS_ONLY = "it is about scalars"

ADVICE: dict[str, str] = {
    **dict.fromkeys(("I", "inv", "inverse", "invert", "as_base_exp"), _NO_INVERSE),
    **dict.fromkeys(("adjoint", "conjugate"), "entries are real: write .T"),
    "det": "formulas have no determinant",
    "applyfunc": "functions of every entry are sa.tanh(X), sa.exp(X), sa.function('phi')(X), …",
    **dict.fromkeys(
        ("diff", "integrate", "limit", "series", "nseries", "lseries", "aseries", "taylor_term")
        + ("fps", "fourier_series", "leadterm", "as_leading_term", "getO", "getn", "removeO"),
        "SymPy's calculus loses the tags",
    ),
    **dict.fromkeys(
        ("as_explicit", "as_mutable", "as_real_imag", "evalf", "n", "round", "nsimplify"),
        "its sizes are symbols: generate a function with sa.lambdify and call that with arrays",
    ),
    **dict.fromkeys(
        ("match", "matches", "rewrite", "rcall", "find", "refine", "as_dummy")
        + ("canonicalize", "from_index_summation"),
        "to change a part write .xreplace({old: new}), which checks the result",
    ),
    **dict.fromkeys(
        ("apart", "cancel", "collect", "combsimp", "expand", "factor", "gammasimp", "normal")
        + ("powsimp", "radsimp", "ratsimp", "separate", "together", "trigsimp", "primitive")
        + ("as_content_primitive", "as_poly", "as_expr", "as_terms", "as_ordered_terms")
        + ("as_ordered_factors", "as_independent", "as_coefficients_dict")
        + ("as_coeff_add", "as_coeff_mmul", "as_coeff_exponent", "as_powers_dict")
        + ("args_cnc", "as_numer_denom", "coeff", "extract_additively", "extract_branch_factor")
        + ("extract_multiplicatively",),
        _AS_WRITTEN,
    ),
    **dict.fromkeys(
        ("equals", "dummy_eq", "is_same"), "to compare two formulas write sa.prove(left, right)"
    ),
    **dict.fromkeys(
        ("is_constant", "is_polynomial", "is_rational_function", "is_meromorphic")
        + ("is_algebraic_expr", "is_hypergeometric"),
        _SCALARS_ONLY,
    ),
    # What sympy.tanh(X) and its like ask first.
    "as_coefficient": "SymPy's functions do not check tags; use symattn's own, such as sa.tanh(X)",
    "fromiter": "build expressions with the operators",
    "dir": _SCALARS_ONLY,
    "valid_index": "a formula is about whole matrices",
}


def _refused(name: str, advice: str) -> Any:
    def refuse(*_args: Any, **_kwargs: Any) -> Any:
        raise OperationRefusedError(f".{name}", advice)

    refuse.__name__ = name
    refuse.__doc__ = f"Raise: {advice}."
    return property(refuse) if name == "I" else refuse


class Refusals:
    """The refused attributes, as a base that stands before SymPy's own."""


for _name, _advice in ADVICE.items():
    setattr(Refusals, _name, _refused(_name, _advice))
