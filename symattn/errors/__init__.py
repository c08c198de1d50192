"""Every error that symattn raises, each holding its facts and composing its own message.

An error is a value: a caller reads `error.position` or `error.tags` rather than taking a message
apart, and the message is written in one place, from those facts, in `__init__`. Everything derives
from `SymattnError`, and also from the built-in class that says what kind of mistake it was
(`ValueError`, `LookupError`), so that code which has never heard of symattn still catches it.

The invariant: an error survives copying and pickling with its facts and message unchanged.

Read `root` first; the others are by what went wrong: `sizes`, `names`, `expressions`, `calls`,
`checks`, `settings`.
"""

from symattn.errors.calls import (
    BackendError,
    CallError,
    FileTakenError,
    InputError,
    InputShapeError,
    SavePathError,
    ScalarError,
    SignatureError,
)
from symattn.errors.checks import (
    NoBindingsError,
    ShapeCheckError,
    SpecError,
    TypeCheckError,
    UncheckedWarning,
)
from symattn.errors.expressions import (
    AlignmentError,
    AxisError,
    EntryError,
    FamilyIndexError,
    HeadsError,
    MaskError,
    MinusInfinityError,
    NotAnOperandError,
    ShapeError,
    UndefinedPointError,
)
from symattn.errors.names import (
    NameSyntaxError,
    SymbolClashError,
    TextRefusedError,
)
from symattn.errors.root import (
    AttributeRefusedError,
    InternalError,
    NotSupportedError,
    OperationRefusedError,
    SymattnError,
    UnknownNameError,
)
from symattn.errors.settings import (
    PackageError,
    SettingError,
    UnknownSettingError,
)
from symattn.errors.sizes import (
    RelationError,
    SizeError,
    SizeSyntaxError,
)

__all__ = [
    "AlignmentError",
    "AttributeRefusedError",
    "AxisError",
    "BackendError",
    "CallError",
    "EntryError",
    "FamilyIndexError",
    "FileTakenError",
    "HeadsError",
    "InputError",
    "InputShapeError",
    "InternalError",
    "MaskError",
    "MinusInfinityError",
    "NameSyntaxError",
    "NoBindingsError",
    "NotAnOperandError",
    "NotSupportedError",
    "OperationRefusedError",
    "PackageError",
    "RelationError",
    "SavePathError",
    "ScalarError",
    "SettingError",
    "ShapeCheckError",
    "ShapeError",
    "SignatureError",
    "SizeError",
    "SizeSyntaxError",
    "SpecError",
    "SymattnError",
    "SymbolClashError",
    "TextRefusedError",
    "TypeCheckError",
    "UncheckedWarning",
    "UndefinedPointError",
    "UnknownNameError",
    "UnknownSettingError",
]

# A traceback names an error as a program catches it.
for _error in (globals()[name] for name in __all__):
    _error.__module__ = __name__
