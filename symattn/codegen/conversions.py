"""Boolean masks from and to what other libraries take: the other polarity, and the additive form.

Here ``True`` means "may attend".  In some libraries ``True`` means "masked out" (PyTorch's
``key_padding_mask``), and others add an array of 0 and −∞ to the scores.  None of these can be told
from its values alone, so each has a function with a name that says which it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symattn.errors import InputError

_MAY_ATTEND = "booleans, True where it may attend"


def keep_from_excluded(excluded: Any) -> Any:
    """Return the booleans of what may attend from those of what is masked out.

    >>> import numpy as np
    >>> keep_from_excluded(np.array([False, True])).tolist()
    [True, False]

    Arrays of any shape and of any library with NumPy's interface; raises `InputError` for others
    than booleans.
    """
    _check(excluded, "b", "excluded", "booleans, True where it is masked out")
    return ~excluded


def keep_from_additive(bias: Any) -> Any:
    """Return the booleans of what may attend from an array of 0 and −∞ that is added to scores.

    >>> import numpy as np
    >>> keep_from_additive(np.array([0.0, -np.inf])).tolist()
    [True, False]

    Raises `InputError` for any other number: a large negative one is no −∞, and a key with lower
    scores would lose against those that it masks out; other numbers are a bias, part of the scores.
    """
    wanted = "an array of floats, each of them 0 or -inf"
    _check(bias, "f", "bias", wanted)
    keep = bias == 0
    if not bool((keep | (bias == -np.inf)).all()):
        raise InputError("bias", "an array with other numbers", "add those to the scores", wanted)
    return keep


def additive_from_keep(keep: Any, dtype: Any) -> Any:
    """Return the array of 0 and −∞, to be added to scores, from the booleans of what may attend.

    >>> import numpy as np
    >>> additive_from_keep(np.array([True, False]), np.float32).tolist()
    [0.0, -inf]

    A query that may attend to nothing gets NaN where such an array is added: use the booleans.
    Raises `InputError` for others than booleans, and for a ``dtype`` of whole numbers.
    """
    _check(keep, "b", "keep", _MAY_ATTEND)
    bias = (~keep).astype(dtype)  # of the same library
    if bias.dtype.kind in "biu":
        raise InputError("dtype", str(bias.dtype), "", "a dtype of floats, which has −∞")
    bias[~keep] = -np.inf
    return bias


def _check(array: Any, kind: str, name: str, wanted: str) -> None:
    """Raise `InputError` unless a value is an array whose dtype is of a kind."""
    dtype = getattr(array, "dtype", None)
    if getattr(dtype, "kind", None) == kind:
        return
    found = f"a {type(array).__name__}" if dtype is None else f"an array of dtype {dtype}"
    raise InputError(name, found, "", wanted)
