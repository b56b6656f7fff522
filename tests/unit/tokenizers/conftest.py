"""Cased and uncased, for the tests of this room."""

import pytest


@pytest.fixture(params=[True, False], ids=["uncased", "cased"])
def lowercase(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)
