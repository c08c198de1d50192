"""What is wrong with a call of a generated function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symattn.errors.root import SymattnError


class SignatureError(SymattnError, ValueError):
    """Inputs that are not those of the formula for which a function is generated.

    >>> print(SignatureError("V Softmax(KᵀQ)", ("V is in the formula, but not among the inputs",)))
    no function of these inputs computes V Softmax(KᵀQ)
      V is in the formula, but not among the inputs
    """

    def __init__(self, formula: str, problems: Sequence[str]) -> None:
        self.formula = formula
        self.problems = tuple(problems)
        lines = [f"no function of these inputs computes {formula}", *self.problems]
        super().__init__("\n  ".join(lines))


class CallError(SymattnError, TypeError):
    """A generated function called with too many, too few or unknown arguments.

    >>> print(CallError("f(Q, K, V)", "V is missing"))
    f(Q, K, V): V is missing
    """

    def __init__(self, call: str, reason: str) -> None:
        self.call = call
        self.reason = reason
        super().__init__(f"{call}: {reason}")


class InputError(SymattnError, TypeError):
    """An argument of a generated function that is not an array (or number) that it can take.

    ``fix`` is the conversion to make before the call.

    >>> print(InputError("Q", "an array of int64", "Q.astype(np.float64)"))
    Q is an array of int64; give float16, float32 or float64: Q.astype(np.float64)
    """

    def __init__(
        self, name: str, found: str, fix: str, wanted: str = "float16, float32 or float64"
    ) -> None:
        self.name = name
        self.found = found
        self.fix = fix
        self.wanted = wanted
        super().__init__(f"{name} is {found}; give {wanted}" + (f": {fix}" if fix else ""))


class InputShapeError(SymattnError, ValueError):
    """Arrays whose shapes do not fit the tags of the inputs, or each other.

    ``shapes`` holds for each input its name, its axes in tags, and the shape that was given.

    >>> print(InputShapeError("d_k = 4 from Q's rows, but 3 from K's rows",
    ...                       (("Q", "(…, d_k, n)", (4, 5)), ("K", "(…, d_k, m)", (3, 7)))))
    d_k = 4 from Q's rows, but 3 from K's rows
      Q (…, d_k, n) has shape (4, 5)
      K (…, d_k, m) has shape (3, 7)
    """

    def __init__(
        self,
        problem: str,
        shapes: Sequence[tuple[str, str, tuple[int, ...]]],
        hint: str = "",
    ) -> None:
        self.problem = problem
        self.shapes = tuple(shapes)
        self.hint = hint
        lines = [problem]
        lines += [f"  {name} {axes} has shape {shape}" for name, axes, shape in self.shapes]
        if hint:
            lines.append(f"  {hint}")
        super().__init__("\n".join(lines))


class BackendError(SymattnError, RuntimeError):
    """What a generated function needs to run, and what is not there or does not work.

    ``problem`` says what is the matter, ``fix`` what to install or do.

    >>> print(BackendError("cupy", "there is no NVIDIA driver", 'install one, or take "numpy"'))
    backend="cupy" cannot run here: there is no NVIDIA driver
      install one, or take "numpy"
    """

    def __init__(self, backend: str, problem: str, fix: str) -> None:
        self.backend = backend
        self.problem = problem
        self.fix = fix
        super().__init__(f'backend="{backend}" cannot run here: {problem}\n  {fix}')


class FileTakenError(SymattnError, FileExistsError):
    """A file that is there already, where one is to be written: it is left as it is.

    >>> print(FileTakenError("attention.py"))
    there is a file attention.py already, and it is not overwritten
    """

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"there is a file {path} already, and it is not overwritten")


class SavePathError(SymattnError, ValueError):
    """A path at which a module cannot be saved, or could not be imported from.

    >>> print(SavePathError("a-b.py", "a-b cannot be imported; give a name such as a_b.py"))
    no module can be saved as a-b.py: a-b cannot be imported; give a name such as a_b.py
    """

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"no module can be saved as {path}: {reason}")


class ScalarError(SymattnError, ValueError):
    """A scalar of a formula that is no finite real number, with the sizes and scalars of a call.

    >>> print(ScalarError("1 / √d_k", "it divides by zero", {"d_k": 0}))
    the scalar 1 / √d_k cannot be computed: it divides by zero, with d_k = 0
    """

    def __init__(self, scalar: str, reason: str, values: Mapping[str, float]) -> None:
        self.scalar = scalar
        self.reason = reason
        self.values = dict(values)
        given = ", ".join(f"{name} = {value}" for name, value in self.values.items())
        message = f"the scalar {scalar} cannot be computed: {reason}"
        super().__init__(message + (f", with {given}" if given else ""))
