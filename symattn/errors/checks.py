"""What is wrong with a call of a checked function, or with what such a function declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symattn.errors.root import SymattnError

Shape = tuple[int, ...]

_MOST_SHOWN = 8


class SpecError(SymattnError, TypeError):
    """Annotations or a spec that cannot be checked; raised when the function is decorated.

    ``function`` is the function's name, ``problem`` what is wrong, ``fix`` what to write instead.

    >>> print(SpecError("attend", "there is nothing to check", "annotate a parameter"))
    attend(): there is nothing to check
      annotate a parameter
    """

    def __init__(self, function: str, problem: str, fix: str = "") -> None:
        self.function = function
        self.problem = problem
        self.fix = fix
        super().__init__(f"{function}(): {problem}" + (f"\n  {fix}" if fix else ""))


class ShapeCheckError(SymattnError, ValueError):
    """A call whose arrays, or result, do not have the shapes that its function declares.

    ``function`` is the function's name, ``problem`` what is wrong, in one line, and ``also`` what
    else is.  ``rows`` hold for each array its name, its declared shape and the shape that it has
    (what it is, if it has none); those that are `marked` are pointed at.  ``culprits`` are the
    arguments that may be to blame, and ``culprit_sets`` the smallest sets of them without which
    all the rest fits: several where the sizes cannot tell.  ``bindings`` are the sizes that follow
    from the others, each with where it comes from; each of the ``fixes`` is a change that was
    checked to make the call fit, and ``note`` says what the message leaves open.

    >>> print(ShapeCheckError("attend", "K looks transposed: (7, 4), but d_k m is (4, 7)",
    ...     [("Q", "d_k n", (4, 5)), ("K", "d_k m", (7, 4))], ["K"],
    ...     {"d_k": (4, "Q"), "n": (5, "Q")}, ["K.T"]))
    attend(): K looks transposed: (7, 4), but d_k m is (4, 7)
        Q  d_k n  (4, 5)
      > K  d_k m  (7, 4)
      d_k = 4 (Q), n = 5 (Q)
      this fits: K.T
    """

    def __init__(
        self,
        function: str,
        problem: str,
        rows: Sequence[tuple[str, str, Shape | str]] = (),
        culprits: Sequence[str] = (),
        bindings: Mapping[str, tuple[object, str]] | None = None,
        fixes: Sequence[str] = (),
        *,
        also: Sequence[str] = (),
        note: str = "",
        marked: Sequence[str] | None = None,
        culprit_sets: Sequence[Sequence[str]] | None = None,
    ) -> None:
        self.function = function
        self.problem = problem
        self.rows = tuple(rows)
        self.culprits = tuple(culprits)
        self.bindings = dict(bindings or {})
        self.fixes = tuple(fixes)
        self.also = tuple(also)
        self.note = note
        self.marked = tuple(culprits if marked is None else marked)
        self.culprit_sets = tuple(
            tuple(names) for names in ([culprits] if culprit_sets is None else culprit_sets)
        )
        lines = [f"{function}(): {problem}", *(f"  {line}" for line in self.also)]
        lines += rows_text(self.rows, self.marked)
        if self.bindings:
            lines.append("  " + bindings_text(self.bindings))
        lines += [f"  {line}" for line in (note, fixes_text(self.fixes)) if line]
        super().__init__("\n".join(lines))


class TypeCheckError(SymattnError, TypeError):
    """An argument, or a result, that is not of the type (or dtype) that its function declares.

    ``place`` is the argument or what stands in it, ``wanted`` and ``got`` say both types, ``kind``
    is "type" or "dtype", ``also`` says what else is wrong with the call; each of the ``fixes`` is
    a change that was checked to make the call fit.

    >>> print(TypeCheckError("attend", "K", 'an array "d_k m"', "a list", ["np.asarray(K)"]))
    attend(): K is a list, but is declared as an array "d_k m"
      this fits: np.asarray(K)
    """

    def __init__(
        self,
        function: str,
        place: str,
        wanted: str,
        got: str,
        fixes: Sequence[str] = (),
        *,
        kind: str = "type",
        also: Sequence[str] = (),
    ) -> None:
        self.function = function
        self.place = place
        self.wanted = wanted
        self.got = got
        self.fixes = tuple(fixes)
        self.kind = kind
        self.also = tuple(also)
        said = misfit_text(place, wanted, got)
        lines = [f"{function}(): {said}", *(f"  {line}" for line in self.also)]
        lines += [f"  {line}" for line in (fixes_text(self.fixes),) if line]
        super().__init__("\n".join(lines))


def misfit_text(place: str, wanted: str, got: str) -> str:
    """What is wrong with a type or a dtype, in one line.

    >>> misfit_text("h", "int", "a Python float")
    'h is a Python float, but is declared as int'
    """
    return f"{place} is {got}, but is declared as {wanted}"


def fixes_text(fixes: Sequence[str]) -> str:
    """The changes that make a call fit, in one line.

    >>> fixes_text(["K.T"]), fixes_text(["K.T", "h = 4"])
    ('this fits: K.T', 'each of these fits: K.T; h = 4')
    """
    if len(fixes) < 2:
        return "".join(f"this fits: {fix}" for fix in fixes)
    return f"each of these fits: {'; '.join(fixes)}"


class UncheckedWarning(UserWarning):
    """Something is left unchecked: a type that cannot be checked, a function of a whole package.

    Filter it as an error to have it refused.
    """


class NoBindingsError(SymattnError, LookupError):
    """Sizes of a call were asked for where no checked call is going on.

    >>> print(NoBindingsError("bindings()"))
    bindings() is called in no checked function: decorate it with @shapecheck (while checks are on)
      in a thread that it starts, give what bindings() returned outside: expect(…, within=sizes)
    """

    def __init__(self, call: str) -> None:
        self.call = call
        super().__init__(
            f"{call} is called in no checked function: decorate it with @shapecheck (while checks "
            "are on)\n  in a thread that it starts, give what bindings() returned outside: "
            "expect(…, within=sizes)"
        )


def bindings_text(bindings: Mapping[str, tuple[object, str]]) -> str:
    """Every size with where it comes from, in one line.

    >>> bindings_text({"d_k": (4, "Q"), "batch": ((2, 3), "V")})
    'd_k = 4 (Q), batch = (2, 3) (V)'
    """
    return ", ".join(f"{tag} = {value} ({where})" for tag, (value, where) in bindings.items())


def shape_text(shape: Sequence[object]) -> str:
    """A shape as Python writes it; of many axes, the middle is left out.

    >>> shape_text((4, 5)), shape_text((7,)), shape_text(tuple(range(2, 12)))
    ('(4, 5)', '(7,)', '(2, 3, 4, 5, …, 9, 10, 11)')
    """
    parts = [str(size) for size in shape]
    if len(parts) > _MOST_SHOWN:
        parts = [*parts[:4], "…", *parts[-3:]]
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def rows_text(
    rows: Sequence[tuple[str, str, Shape | str]], marked: Sequence[str] = ()
) -> list[str]:
    """One line for each array, in columns; those marked are pointed at.

    >>> rows_text([("Q", "d_k n", (4, 5)), ("mask", "n", "a list")], ["mask"])
    ['    Q     d_k n  (4, 5)', '  > mask  n      a list']
    """
    names = max((len(name) for name, _, _ in rows), default=0)
    specs = max((len(spec) for _, spec, _ in rows), default=0)
    return [
        f"  {'>' if name in marked else ' '} {name:<{names}}  {spec:<{specs}}  "
        + (shape if isinstance(shape, str) else shape_text(shape))
        for name, spec, shape in rows
    ]
