"""What holds on a device: other libraries may warn, and leave its memory to each other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX would take three quarters


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let no warning of a library fail a test: on each machine they are of other versions."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.filterwarnings("default"))
