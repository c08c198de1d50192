"""`spellings.py` is clean in ruff and pyright, which `.ci/run` runs over all tests, and in mypy."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import symattn as sa
from tests.runtime import spellings

SPELLINGS = Path(spellings.__file__)


def test_what_type_checkers_accept_is_checked() -> None:
    Q, K, V = np.ones((4, 5)), np.ones((4, 7)), np.ones((3, 7))
    assert spellings.attend(Q, K, V).shape == (3, 5)
    with pytest.raises(sa.ShapeCheckError):
        spellings.attend(Q, K.T, V)
    assert spellings.norms(Q).shape == (4,)
    with pytest.raises(sa.ShapeCheckError):
        spellings.Layer(np.ones((2, 3)))(Q)


@pytest.mark.skipif(find_spec("mypy") is None, reason="mypy is not installed")
def test_mypy_accepts_the_spellings() -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent"]
    done = subprocess.run(
        [*command, "--cache-dir", "/dev/null", SPELLINGS.name],
        cwd=SPELLINGS.parent,
        env={"MYPYPATH": str(Path(sa.__file__).parents[1])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
