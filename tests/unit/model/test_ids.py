"""Identifiers: UUIDv7 that strictly increase within a process (R-05)."""

import os
import threading
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.model.clock import cut_to_ms, to_ms
from rota.model.ids import IdSource, created_at, is_id

NOW = datetime(2026, 11, 15, 20, 41, 7, 250_000, tzinfo=UTC)
steps = st.lists(st.integers(-10_000, 10_000), min_size=2, max_size=60)


@settings(max_examples=100)
@given(steps)
def test_identifiers_increase_whatever_the_clock_does_r_05(moves):
    source, now, made = IdSource(), NOW, []
    for move in moves:
        now += timedelta(milliseconds=move)
        made.append(source.new(now))
    assert made == sorted(set(made))


def test_five_thousand_identifiers_of_one_millisecond_increase_r_05():
    source = IdSource()
    made = [source.new(NOW) for _ in range(5_000)]
    assert made == sorted(set(made))
    assert {created_at(identifier) for identifier in made} == {NOW}


def test_counting_beyond_the_random_bits_goes_on_in_the_next_millisecond_r_05():
    source = IdSource()
    first = source.new(NOW)
    source._random = (1 << 74) - 1
    second = source.new(NOW)
    assert first < second
    assert created_at(second) == NOW + timedelta(milliseconds=1)


def test_identifiers_of_several_threads_are_all_different():
    source, made = IdSource(), []
    threads = [threading.Thread(target=lambda: made.extend(source.new(NOW) for _ in range(500))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 2_000


def test_an_identifier_is_a_uuid_of_version_seven_that_knows_its_time():
    identifier = IdSource().new(NOW)
    parsed = uuid.UUID(identifier)
    assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
    assert parsed.int >> 80 == to_ms(NOW)
    assert created_at(identifier) == cut_to_ms(NOW)


def test_a_clock_before_1970_still_gives_identifiers():
    source = IdSource()
    made = [source.new(datetime(1969, 1, 1, tzinfo=UTC)) for _ in range(3)]
    assert made == sorted(set(made))
    assert all(is_id(identifier) for identifier in made)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "..",
        "%2e%2e",
        "1 OR 1=1",
        "backup:3",
        "{019a8a2d-1000-7000-8000-00000000000a}",
        "urn:uuid:019a8a2d-1000-7000-8000-00000000000a",
        "019a8a2d1000700080000000000000a",
        "019a8a2d100070008000000000000000",
        " 019a8a2d-1000-7000-8000-00000000000a",
        "019a8a2d-1000-7000-8000-00000000000g",
    ],
)
def test_other_spellings_are_no_identifier(text):
    assert not is_id(text)


def test_an_identifier_is_one():
    assert is_id("019a8a2d-1000-7000-8000-00000000000a")


def test_a_forked_process_makes_other_identifiers() -> None:
    """What is random after a fork is not what was before it: both processes go on in the same millisecond."""
    source = IdSource()
    source.new(NOW)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, source.new(NOW).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 100).decode() != source.new(NOW)
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("before", [-1, 0, 5])
def test_many_identifiers_at_once_sort_between_those_before_and_after(before):
    source = IdSource()
    first = source.new(NOW + timedelta(milliseconds=before))

    made = source.many(NOW, 500)

    assert sorted({first, *made}) == [first, *made]
    assert made[-1] < source.new(NOW)
    assert source.many(NOW, 0) == []
