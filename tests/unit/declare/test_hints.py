"""Answers to words that rota does not know."""

import pytest

from rota.declare.keys import JOB, PROJECT
from rota.declare.problems import JOB_WORDS, TOP_WORDS, unknown_key

JOB_KEYS = list(JOB.keys)
EXPECTED = [
    ("every", "interval"),
    ("schedule", "cron"),
    ("when", "conditions"),
    ("if", "conditions"),
    ("cmd", "command"),
    ("script", "shell"),
    ("exec", "command"),
    ("tz", "timezone"),
    ("retries", "retry: {max_attempts"),
    ("catchup", "misfire"),
    ("catch_up", "misfire"),
    ("coalesce", "misfire"),
    ("concurrency_policy", "overlap"),
    ("environment", "env"),
    ("dir", "cwd"),
    ("workdir", "cwd"),
    ("tags", "labels"),
    ("depends_on", "members of a group"),
    ("needs", "members of a group"),
    ("on_failure", "`notify: {on: [failed]"),
    ("disabled", "enabled"),
    ("resources", "`pools: [ollama]`"),
    ("queue", "`overlap: queue`"),
    ("user", "the user of the scheduler"),
]


@pytest.mark.parametrize(("word", "answer"), EXPECTED)
def test_each_word_of_the_list_has_its_answer(word, answer):
    assert answer in unknown_key(word, JOB_KEYS, JOB_WORDS)


def test_no_answered_word_is_accepted():
    assert not set(JOB_WORDS) & set(JOB.keys)
    assert not set(TOP_WORDS) & set(PROJECT.keys)


@pytest.mark.parametrize(
    ("word", "near"),
    [("intervall", "interval"), ("Command", "command"), ("time-zone", "timezone"), ("priorty", "priority")],
)
def test_a_near_name_is_guessed(word, near):
    assert unknown_key(word, JOB_KEYS, JOB_WORDS) == f'did you mean "{near}"?'


@pytest.mark.parametrize("word", ["zzz", "budget_account", ""])
def test_a_name_that_is_not_near_gets_no_guess(word):
    assert unknown_key(word, JOB_KEYS, JOB_WORDS) == ""
