"""What holds for all tests: the seed of random ones is printed, so that a run can be repeated.

Tests that ask for `each_plan` run once with whole matrices, and once in small blocks.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from symattn.codegen.plans import Chosen, Plans
from tests.codegen.blocks import in_small_blocks


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if getattr(config.option, "hypothesis_seed", None) is None:
        config.option.hypothesis_seed = str(random.SystemRandom().getrandbits(32))


def pytest_report_header(config: pytest.Config) -> str:
    return f"random tests: --hypothesis-seed={config.option.hypothesis_seed}"


@pytest.fixture(scope="module", params=["direct", "blocked"])
def each_plan(request: pytest.FixtureRequest) -> Iterator[str]:
    """Let the plan that suits the sizes be this one at all sizes, where the formula has it."""
    with pytest.MonkeyPatch.context() as patch:
        in_small_blocks(patch)

        def chosen(plans: Plans, *_arguments: object) -> Chosen:
            return Chosen(plans.by_name.get(request.param, plans.shown))

        patch.setattr(Plans, "chosen", chosen)
        yield request.param
