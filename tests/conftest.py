"""What holds for all tests: the seed of random ones is printed, so that a run can be repeated."""

from __future__ import annotations

import random

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if getattr(config.option, "hypothesis_seed", None) is None:
        config.option.hypothesis_seed = str(random.SystemRandom().getrandbits(32))


def pytest_report_header(config: pytest.Config) -> str:
    return f"random tests: --hypothesis-seed={config.option.hypothesis_seed}"
