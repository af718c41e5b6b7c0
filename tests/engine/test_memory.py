"""What a process that serves does about garbage."""

import gc

import pytest

from rota.engine.membership.control import OBJECTS, collect_rarely


@pytest.fixture
def as_before():
    thresholds = gc.get_threshold()
    yield thresholds
    gc.set_threshold(*thresholds)
    gc.unfreeze()


def test_what_is_there_is_left_alone_and_the_rest_looked_at_rarely(as_before):
    collect_rarely()
    assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == (OBJECTS, *as_before[1:])


def test_garbage_that_comes_later_is_still_found(as_before):
    collect_rarely()
    found = [[] for _ in range(100)]
    for one in found:
        one.append(one)
    del found, one
    assert gc.collect() >= 100
