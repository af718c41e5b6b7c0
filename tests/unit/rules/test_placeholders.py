"""Placeholders: a closed list, filled in one pass (R-25)."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rota.model.agents import WorkItem
from rota.model.errors import InvalidValue
from rota.rules.prompts import (
    RESULT_ROOM,
    PlaceholderValues,
    PromptPlaces,
    check_placeholders,
    fill,
    known_placeholders,
    names_item,
    option_places,
    result_jobs,
)

VALUES = PlaceholderValues(
    job="backup",
    number=112,
    scheduled_for=datetime(2026, 11, 15, 23, 30, tzinfo=UTC),
    timezone="Europe/Madrid",
    params={
        "region": "eu",
        "full": False,
        "n": 3,
        "ratio": 1.5,
        "none": None,
        "list": [1, "é"],
        "evil": "{{ job }}; rm -rf /",
    },
)


BRACES = r"write `\{{` for the braces themselves"
KNOWN = f"use one of job, run.number, scheduled_for, params.NAME; {BRACES}"


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("plain", "plain"),
        ("{{ job }}", "backup"),
        ("{{job}}:{{ run.number }}", "backup:112"),
        ("{{ scheduled_for }}", "2026-11-16T00:30:00+01:00"),
        ("{{ scheduled_for:%Y-%m-%d }}", "2026-11-16"),
        ("{{ scheduled_for:%H:%M }}", "00:30"),
        ("{{scheduled_for:%G-W%V}}", "2026-W47"),
        ("{{ scheduled_for:%d%% }}", "16%"),
        ("{{ params.region }}/x", "eu/x"),
        ("{{ params.full }}", "false"),
        ("{{ params.n }}", "3"),
        ("{{ params.ratio }}", "1.5"),
        ("{{ params.none }}", "null"),
        ("{{ params.list }}", '[1,"é"]'),
        ("{ job } }} {job}", "{ job } }} {job}"),
    ],
)
def test_r_25_a_placeholder_is_filled_in_the_jobs_zone(text, filled):
    assert check_placeholders(text, params=VALUES.params) == []
    assert fill(text, VALUES) == filled


def test_r_25_what_a_value_holds_is_never_read_again():
    assert fill("{{ params.evil }}", VALUES) == "{{ job }}; rm -rf /"


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("{{ jobb }}", ['no placeholder is named "jobb"; did you mean "job"?']),
        ("{{ x }}", ['no placeholder is named "x"; ' + KNOWN]),
        ("{{ }}", ['no placeholder is named ""; ' + KNOWN]),
        (
            "{{ job.__class__ }}",
            ['no placeholder is named "job.__class__"; ' + KNOWN],
        ),
        ("{{ params.regin }}", ['the job has no param "regin"; did you mean "region"?']),
        ("{{ params.zzz }}", ['the job has no param "zzz"; add it to `params:`']),
        ("{{ params.region.upper }}", ['the job has no param "region.upper"; did you mean "region"?']),
        ("{{ params.n:03d }}", ['"params.n" takes no format']),
        ("{{ job:x }}", ['"job" takes no format']),
        ("{{ scheduled_for: }}", ['"scheduled_for:" lacks its format; write {{ scheduled_for:%Y-%m-%d }}']),
        ("{{ job", [rf"`{{{{` is not closed by `}}}}`; {BRACES}"]),
        ("{{ nope }} {{ job }} {{ params.zzz }}", 2),
    ],
)
def test_r_25_what_is_not_on_the_list_is_told(text, messages):
    found = check_placeholders(text, params=VALUES.params)
    assert found == messages if isinstance(messages, list) else len(found) == messages


@pytest.mark.parametrize("pattern", ["%Q", "%-d", "%c", "%s", "%", "%Y %"])
def test_r_25_a_format_that_is_not_the_same_everywhere_is_told(pattern):
    [message] = check_placeholders(f"{{{{ scheduled_for:{pattern} }}}}", params=())
    assert "is not a date format" in message


def test_the_result_of_another_job_stands_in_prompts_alone() -> None:
    text = "{{ runs.lint.all.result }}"
    assert check_placeholders(text, params=(), prompt=PromptPlaces()) == []
    [refused] = check_placeholders(text, params=())
    assert "allowed only in prompts" in refused
    assert result_jobs(text + r" \{{ runs.x.result }} {{ job }}") == ("lint.all",)


def test_a_result_in_a_prompt_is_bounded() -> None:
    values = replace(VALUES, outputs=(), results={"lint": "x" * 10**6})
    assert len(fill("{{ runs.lint.result }}", values)) == RESULT_ROOM


def test_r_25_an_unknown_placeholder_is_never_passed_on():
    with pytest.raises(InvalidValue, match='no placeholder is named "nope"'):
        fill("{{ nope }}", VALUES)
    with pytest.raises(InvalidValue, match='the run has no param "zzz"'):
        fill("{{ params.zzz }}", VALUES)


def test_only_what_rota_would_know_is_found_in_foreign_braces():
    assert known_placeholders("{{.Names}} {{ job }} {{params.x}} {{ item }}") == ["{{ job }}", "{{params.x}}"]


@settings(max_examples=300)
@given(
    st.lists(
        st.sampled_from(["{{", "}}", "{", "}", " ", "job", "params.", "n", "scheduled_for", ":", "%Y", "%", "\n"])
    ).map("".join)
)
def test_a_text_that_was_checked_can_be_filled(text):
    if not check_placeholders(text, params=VALUES.params):
        assert isinstance(fill(text, VALUES), str)


PROMPT = PromptPlaces(conditions=2, item=True)
ITEM = WorkItem("7", "500 on search", url="https://x/7", metadata={"priority": "high", "labels": ["a"]})
ASKED = replace(VALUES, outputs=("three PRs\n", ""), item=ITEM)


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("<{{ conditions.0.output }}>", "<three PRs>"),
        ("<{{ conditions.1.output }}>", "<>"),
        ("{{ item.title }} at {{ item.url }}", "500 on search at https://x/7"),
        ("<{{ item.description }}>", "<>"),
        ("{{ item.metadata.priority }} {{item.metadata.labels}}", 'high ["a"]'),
        ("<{{ item.metadata.nothing }}>", "<>"),
    ],
)
def test_r_25_a_prompt_may_name_its_item_and_what_its_conditions_wrote(text: str, filled: str) -> None:
    """R-25."""
    assert check_placeholders(text, params=(), prompt=PROMPT) == []
    assert fill(text, ASKED) == filled


def test_conditions_that_were_passed_over_wrote_nothing() -> None:
    """A run that was forced has asked none."""
    assert fill("<{{ conditions.1.output }}>", replace(VALUES, outputs=())) == "<>"


def test_what_a_condition_wrote_is_never_read_for_placeholders() -> None:
    assert fill("{{ conditions.0.output }}", replace(VALUES, outputs=("{{ job }}",))) == "{{ job }}"


@pytest.mark.parametrize("text", ["{{ item.title }}", "{{ item.metadata.x }}", "{{ conditions.0.output }}"])
def test_r_25_they_stand_in_prompts_only(text: str) -> None:
    """R-25."""
    [told] = check_placeholders(text, params=())
    assert "is allowed only in prompts; move it to `prompt`" in told
    with pytest.raises(InvalidValue, match="only in prompts"):
        fill(text, VALUES)


@pytest.mark.parametrize(
    ("text", "places", "told"),
    [
        ("{{ conditions.2.output }}", PROMPT, "the job has no condition 2; they are numbered from 0, use 0 to 1"),
        ("{{ conditions.0.output }}", PromptPlaces(), "needs a condition; add `conditions:`"),
        ("{{ item.url }}", PromptPlaces(conditions=1), "needs a work item; add `work_source:`"),
        ("{{ item.titel }}", PROMPT, 'did you mean "item.title"?'),
        ("{{ item.metadata. }}", PROMPT, 'no placeholder is named "item.metadata."'),
        ("{{ conditions.x.output }}", PROMPT, 'no placeholder is named "conditions.x.output"'),
        ("{{ item.title:%Y }}", PROMPT, "takes no format"),
    ],
)
def test_r_25_what_a_prompt_cannot_name_is_told(text: str, places: PromptPlaces, told: str) -> None:
    """R-25."""
    [message] = check_placeholders(text, params=(), prompt=places)
    assert told in message


def test_a_prompt_file_that_names_what_is_not_there_is_refused_when_it_is_read() -> None:
    with pytest.raises(InvalidValue, match="no condition 5"):
        fill("{{ conditions.5.output }}", ASKED)
    with pytest.raises(InvalidValue, match="needs a work item"):
        fill("{{ item.title }}", replace(ASKED, item=None))


def test_a_prompt_tells_whether_it_places_its_item_itself() -> None:
    assert names_item("Fix {{ item.title }}")
    assert not names_item("Fix the item of {{ job }}")


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (r"use $\{{ secrets.TOKEN }} as it is", "use ${{ secrets.TOKEN }} as it is"),
        (r"\{{ job }} is {{ job }}", "{{ job }} is backup"),
        (r"\{{- range .Values.hosts }}", "{{- range .Values.hosts }}"),
        (r"\{{ {'a': 1} }}", "{{ {'a': 1} }}"),
        (r"a brace \{{ alone", "a brace {{ alone"),
        (r"a backslash \ alone, and \{ one brace", r"a backslash \ alone, and \{ one brace"),
    ],
)
def test_braces_after_a_backslash_are_no_placeholder(written: str, text: str) -> None:
    assert check_placeholders(written, params=(), prompt=PromptPlaces()) == []
    assert fill(written, replace(VALUES, job="backup")) == text


def test_an_escaped_placeholder_places_no_item() -> None:
    assert not names_item(r"explain \{{ item.title }}")
    assert known_placeholders(r"echo \{{ job }}") == []
    assert option_places(["tool", r"\{{ params.a }}"]) == set()


def test_a_text_that_looks_like_a_template_is_told_how_to_write_its_braces() -> None:
    [told] = check_placeholders("name: {{ secrets.TOKEN }}", params=(), prompt=PromptPlaces())
    assert told.endswith(r"write `\{{` for the braces themselves")
