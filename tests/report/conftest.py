"""A small result to report on."""

from dataclasses import replace

import pytest
from report_records import build


@pytest.fixture
def undecided():
    return build(arc=(2, 4, 20, 14), boolq=(1, 1, 30, 8))


@pytest.fixture
def decided():
    return build(arc=(0, 12, 20, 8), boolq=(1, 9, 20, 10))


@pytest.fixture
def uncompared(undecided):
    return replace(undecided, comparisons=(), baseline=None)
