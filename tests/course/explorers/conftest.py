"""The explorer that a file of tests is about."""

import pytest

from dpkit.course.explorers.explorer import Explorer


@pytest.fixture(scope="module")
def explorer(request: pytest.FixtureRequest) -> Explorer:
    """As it opens."""
    return request.module.EXPLORER()
