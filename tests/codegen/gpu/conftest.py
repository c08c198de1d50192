"""What tests of the blocked plan for CuPy ask for."""

import pytest

from symattn.codegen.gpu import row_blocks, row_strips
from tests.codegen.gpu.host_rows import HostDevice


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> HostDevice:
    """A stand-in for the device, with strips so small that a few tokens are several."""
    host = HostDevice()
    monkeypatch.setattr(row_blocks, "DEVICE", host)
    monkeypatch.setattr(row_strips, "ROWS", 4)
    monkeypatch.setattr(row_strips, "FEW_ROWS", 3)
    monkeypatch.setattr(row_strips, "ALIGNED", 4)
    return host
