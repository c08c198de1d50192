"""symattn: write an attention formula once; check, print, translate, prove and run it.

Use it as `import symattn as sa`; the public names stand below in reading order. A name is fetched
from its home the first time that it is used, so `import symattn` loads no submodule, neither SymPy
nor NumPy: a run-time check or `symattn --help` does not wait for the algebra.

The table below is what runs; the imports under it say the same to type checkers and editors, and a
test keeps the two equal. No submodule may bear a public name: importing it would put the module in
the function's place.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_READING_ORDER = (
    # Sizes: tags, and the relations between them
    ("symattn.nodes", "dim dims assuming"),
    # What a formula is made of
    ("symattn.nodes", "matrix vector scalar ones identity"),
    # Operations; `@`, `*`, `+`, `-`, `/` and `.T` are written as they are
    ("symattn.nodes", "softmax hadamard max"),
    # Masks: which queries may attend to which keys
    ("symattn.nodes", "causal window prefix padding keep indicator additive_mask"),
    # Parts side by side; scores of pairs, and biases by position
    ("symattn.nodes", "concat pairwise positional"),
    # An index over an axis, to read one entry or one head; a matrix for each head
    ("symattn.nodes", "index family heads head sum_over reshape"),
    # Elementwise functions
    ("symattn.nodes", "exp log tanh sin cos abs relu sigmoid silu softplus sqrt square reciprocal"),
    ("symattn.nodes", "function"),
    # Formulas of several named lines
    ("symattn.nodes", "Program"),
    # Known formulas
    ("symattn.variants", "attention formula formulas"),
    # Reading a formula
    ("symattn.notation", "latex text"),
    # Other views of it: one entry, all of them, one position, the shape of each step, einsum lines
    ("symattn.views", "entry entries per_position shapes einsum"),
    # Two notations, one meaning
    ("symattn.proof", "translate prove"),
    # Arguments that no proof covers, checked on numbers
    ("symattn.variants.derived", "derivation derivations"),
    # Named theorems, and mistakes that numbers refute
    ("symattn.variants", "theorems theorem false_claims"),
    # Running a formula
    ("symattn.codegen", "lambdify"),
    # The score of one pair as source, for a kernel
    ("symattn.codegen", "score_code"),
    # Boolean masks from and to those of other libraries
    ("symattn.codegen", "keep_from_excluded keep_from_additive additive_from_keep"),
    # Checking code as it runs: the decorator, what a body may ask, whole packages, the switch
    ("symattn.runtime.wrappers", "shapecheck"),
    ("symattn.runtime.declared.spelled", "M"),
    ("symattn.runtime.inside", "expect bindings"),
    ("symattn.runtime.packages.importing", "shapecheck_imports"),
    ("symattn.runtime.switch", "config"),
    # What can go wrong: the root; a formula; a text; a call; ourselves
    ("symattn.errors", "SymattnError"),
    ("symattn.errors", "ShapeError AxisError NotAnOperandError OperationRefusedError"),
    ("symattn.errors", "SizeSyntaxError NameSyntaxError UnknownNameError TextRefusedError"),
    ("symattn.errors", "MaskError AlignmentError MinusInfinityError EntryError"),
    ("symattn.errors", "FamilyIndexError HeadsError"),
    ("symattn.errors", "RelationError SizeError SymbolClashError"),
    ("symattn.errors", "SignatureError CallError InputError InputShapeError ScalarError"),
    ("symattn.errors", "SpecError ShapeCheckError TypeCheckError NoBindingsError"),
    ("symattn.errors", "UncheckedWarning"),
    ("symattn.errors", "SettingError UnknownSettingError PackageError"),
    ("symattn.errors", "BackendError FileTakenError SavePathError NotSupportedError InternalError"),
)

_HOME = {name: module for module, names in _READING_ORDER for name in names.split()}

__all__ = list(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]

if TYPE_CHECKING:
    from symattn.codegen import (
        additive_from_keep as additive_from_keep,
        keep_from_additive as keep_from_additive,
        keep_from_excluded as keep_from_excluded,
        lambdify as lambdify,
        score_code as score_code,
    )
    from symattn.errors import (
        AlignmentError as AlignmentError,
        AxisError as AxisError,
        BackendError as BackendError,
        CallError as CallError,
        EntryError as EntryError,
        FamilyIndexError as FamilyIndexError,
        FileTakenError as FileTakenError,
        HeadsError as HeadsError,
        InputError as InputError,
        InputShapeError as InputShapeError,
        InternalError as InternalError,
        MaskError as MaskError,
        MinusInfinityError as MinusInfinityError,
        NameSyntaxError as NameSyntaxError,
        NoBindingsError as NoBindingsError,
        NotAnOperandError as NotAnOperandError,
        NotSupportedError as NotSupportedError,
        OperationRefusedError as OperationRefusedError,
        PackageError as PackageError,
        RelationError as RelationError,
        SavePathError as SavePathError,
        ScalarError as ScalarError,
        SettingError as SettingError,
        ShapeCheckError as ShapeCheckError,
        ShapeError as ShapeError,
        SignatureError as SignatureError,
        SizeError as SizeError,
        SizeSyntaxError as SizeSyntaxError,
        SpecError as SpecError,
        SymattnError as SymattnError,
        SymbolClashError as SymbolClashError,
        TextRefusedError as TextRefusedError,
        TypeCheckError as TypeCheckError,
        UncheckedWarning as UncheckedWarning,
        UnknownNameError as UnknownNameError,
        UnknownSettingError as UnknownSettingError,
    )
    from symattn.nodes import (
        Program as Program,
        abs as abs,
        additive_mask as additive_mask,
        assuming as assuming,
        causal as causal,
        concat as concat,
        cos as cos,
        dim as dim,
        dims as dims,
        exp as exp,
        family as family,
        function as function,
        hadamard as hadamard,
        head as head,
        heads as heads,
        identity as identity,
        index as index,
        indicator as indicator,
        keep as keep,
        log as log,
        matrix as matrix,
        max as max,
        ones as ones,
        padding as padding,
        pairwise as pairwise,
        positional as positional,
        prefix as prefix,
        reciprocal as reciprocal,
        relu as relu,
        reshape as reshape,
        scalar as scalar,
        sigmoid as sigmoid,
        silu as silu,
        sin as sin,
        softmax as softmax,
        softplus as softplus,
        sqrt as sqrt,
        square as square,
        sum_over as sum_over,
        tanh as tanh,
        vector as vector,
        window as window,
    )
    from symattn.notation import latex as latex, text as text
    from symattn.proof import prove as prove, translate as translate
    from symattn.runtime.declared.spelled import M as M
    from symattn.runtime.inside import bindings as bindings, expect as expect
    from symattn.runtime.packages.importing import shapecheck_imports as shapecheck_imports
    from symattn.runtime.switch import config as config
    from symattn.runtime.wrappers import shapecheck as shapecheck
    from symattn.variants import (
        attention as attention,
        false_claims as false_claims,
        formula as formula,
        formulas as formulas,
        theorem as theorem,
        theorems as theorems,
    )
    from symattn.variants.derived import derivation as derivation, derivations as derivations
    from symattn.views import (
        einsum as einsum,
        entries as entries,
        entry as entry,
        per_position as per_position,
        shapes as shapes,
    )

else:  # a type checker that saw `__getattr__` would take every misspelt name for a good one

    def __getattr__(name: str) -> object:
        """Fetch a public name from its home, once."""
        if name in _HOME:
            value = globals()[name] = getattr(import_module(_HOME[name]), name)
            return value
        message = f"module 'symattn' has no attribute {name!r}"
        if not name.startswith("_"):
            close = import_module("symattn.tags").nearest(name, __all__)
            if close:
                message += f"; the nearest names are {', '.join(close)}"
        raise AttributeError(message)


def __dir__() -> list[str]:
    return ["__version__", *__all__]
