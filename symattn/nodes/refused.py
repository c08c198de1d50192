"""What SymPy's matrix expressions offer and formulas do not have, each with a pointer.

`MatrixExpr` gives its subclasses about two hundred public attributes.  Those that would evaluate,
simplify, reorder, differentiate or solve are refused by name here, because their answers would be
wrong or would lose the tags; a contract test keeps the list complete.  Operators that only numbers
have are refused likewise.
"""

from __future__ import annotations

from typing import Any, NoReturn

from symattn.errors import AttributeRefusedError, OperationRefusedError
from symattn.meaning.functions import FUNCTIONS
from symattn.notation.code import brief

_NO_INVERSE = "attention formulas have no matrix inverse; 1/x of every entry is sa.reciprocal(X)"
_NO_NUMBERS = (
    "its sizes are symbols: generate a function with sa.lambdify and call that with arrays"
)

_REFUSED: dict[str, str] = {
    _NO_INVERSE: "inv invert",
    "entries are real: write .T": "adjoint conjugate",
    "formulas have no determinant": "det",
    "functions of every entry are sa.tanh(X), sa.exp(X), sa.function('phi')(X), …": "applyfunc",
    "SymPy's calculus loses the tags": """
        diff integrate limit series nseries lseries aseries taylor_term fps fourier_series leadterm
        as_leading_term getO getn removeO""",
    _NO_NUMBERS: "as_explicit as_mutable as_real_imag evalf n round nsimplify",
    "to change a part write .xreplace({old: new}), which checks the result": """
        match matches rewrite rcall find count refine as_dummy canonicalize
        from_index_summation""",
    "a formula stays as it was written": """
        apart cancel collect combsimp expand factor gammasimp normal powsimp radsimp ratsimp
        separate together trigsimp primitive as_content_primitive as_poly as_expr as_terms
        as_ordered_terms as_ordered_factors as_independent as_coefficients_dict as_coeff_add
        as_coeff_exponent as_powers_dict args_cnc coeff extract_additively
        extract_branch_factor extract_multiplicatively""",
    "to compare two formulas write sa.prove(left, right)": "equals dummy_eq is_same",
    "it is about scalars": """
        is_constant is_polynomial is_rational_function is_meromorphic is_algebraic_expr
        is_hypergeometric dir""",
    # What SymPy's Mul, Pow, MatMul and Add ask first, then what tanh and its like do.
    "SymPy's own sums and products do not check tags; write + - @ *": """
        as_base_exp inverse as_coeff_mmul""",
    "SymPy's functions do not check tags; use symattn's own, such as sa.tanh(X)": "as_coefficient",
    "build expressions with the operators": "fromiter",
    "a formula is about whole matrices": "valid_index",
}

ADVICE = {name: advice for advice, names in _REFUSED.items() for name in names.split()}
"""Methods: for each, what to write in its place."""

PROPERTY_ADVICE: dict[str, str] = {
    "I": _NO_INVERSE,
    "expr_free_symbols": "its matrices and scalars are .free_symbols, its tags .dims",
}
"""Properties: they raise an error that is an `AttributeError` too, so `hasattr` answers no."""


_REFLECTED = {
    "add": "__radd__",
    "subtract": "__rsub__",
    "multiply": "__rmul__",
    "matmul": "__rmatmul__",
    "divide": "__rtruediv__",
    "floor_divide": "__rfloordiv__",
    "remainder": "__rmod__",
    "divmod": "__rdivmod__",
    "power": "__rpow__",
    "less": "__gt__",
    "less_equal": "__ge__",
    "greater": "__lt__",
    "greater_equal": "__le__",
}
"""NumPy's operators: what is called where the left side is an array or a number of NumPy's."""


class Refusals:
    """The refused attributes and operators, as a base that stands before SymPy's own."""

    def __rtruediv__(self, other: Any) -> NoReturn:
        raise OperationRefusedError(
            f"{brief(other)} / ({brief(self)})",
            f"for the reciprocal of every entry write sa.reciprocal({brief(self)})",
        )

    def __pow__(self, other: Any) -> NoReturn:
        raise OperationRefusedError(
            f"({brief(self)})**{brief(other)}",
            f"for powers of every entry write sa.hadamard({brief(self)}, {brief(self)}); "
            "a matrix power is written out with @",
        )

    def __rpow__(self, other: Any) -> NoReturn:
        raise OperationRefusedError(
            f"{brief(other)}**{brief(self)}",
            f"for exponentials of every entry write sa.exp({brief(self)})",
        )

    def _no_integer_division(self, *_others: Any) -> NoReturn:
        raise OperationRefusedError(f"// and % on {brief(self)}", "divide by a scalar with /")

    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __divmod__ = __rdivmod__ = (
        _no_integer_division
    )

    def __abs__(self) -> NoReturn:
        raise OperationRefusedError(f"abs({brief(self)})", f"write sa.abs({brief(self)})")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Take the operators of arrays and NumPy's numbers; refuse NumPy's functions."""
        if ufunc.__name__ in ("equal", "not_equal"):
            return ufunc.__name__ == "not_equal"  # no formula is an array or a number
        reflected = _REFLECTED.get(ufunc.__name__)
        if reflected and method == "__call__" and not options and inputs[-1] is self:
            return getattr(self, reflected)(inputs[0])
        given = ", ".join(map(brief, inputs))
        own = {"absolute": "abs"}.get(ufunc.__name__, ufunc.__name__)
        there = f"write sa.{own}({given})" if own in FUNCTIONS else "NumPy computes with arrays"
        raise OperationRefusedError(f"np.{ufunc.__name__}({given})", there)

    def _no_order(self, _other: Any) -> NoReturn:
        raise OperationRefusedError("<, <=, > and >= between matrices", "matrices have no order")

    __lt__ = __le__ = __gt__ = __ge__ = _no_order

    def __getitem__(self, _key: Any) -> NoReturn:
        raise OperationRefusedError(
            f"{brief(self)}[…]", "a formula is about whole matrices; sa.latex and sa.text print it"
        )

    def __iter__(self) -> NoReturn:
        raise OperationRefusedError(f"iterating over {brief(self)}", "its sizes are symbols")

    def _no_number(self, *_digits: Any) -> NoReturn:
        raise OperationRefusedError(f"turning {brief(self)} into a number", _NO_NUMBERS)

    __int__ = __float__ = __complex__ = __round__ = __trunc__ = __floor__ = __ceil__ = _no_number

    def __array__(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise OperationRefusedError(
            f"turning {brief(self)} into an array",
            "generate a function with sa.lambdify and call that with arrays",
        )


def _method(name: str, advice: str) -> Any:
    def refuse(*_args: Any, **_kwargs: Any) -> NoReturn:
        raise OperationRefusedError(f".{name}", advice)

    refuse.__name__ = name
    refuse.__doc__ = f"Raise: {advice}."
    return refuse


def _property(name: str, advice: str) -> property:
    def refuse(_self: Any) -> NoReturn:
        raise AttributeRefusedError(f".{name}", advice)

    refuse.__doc__ = f"Raise: {advice}."
    return property(refuse)


for _name, _advice in ADVICE.items():
    setattr(Refusals, _name, _method(_name, _advice))
for _name, _advice in PROPERTY_ADVICE.items():
    setattr(Refusals, _name, _property(_name, _advice))
