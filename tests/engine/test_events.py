"""The stages of a run reach each other by events alone."""

import ast
from pathlib import Path

import pytest

import rota
from rota.engine.loops.in_flight import Event

LOOPS = Path(rota.__file__).parent / "engine" / "loops"
CLASSES = {"firer": "Firer", "claimer": "Claimer", "executor": "Executor", "recorder": "Recorder"}


def test_an_event_calls_its_listeners_in_the_order_in_which_they_were_added() -> None:
    heard: list[str] = []
    event = Event[[str]]()
    event.add(lambda word: heard.append(f"first {word}"), lambda word: heard.append(f"second {word}"))
    event("time")
    assert heard == ["first time", "second time"]


@pytest.mark.parametrize("stage", CLASSES)
def test_a_stage_names_no_other_stage_and_not_the_engine(stage: str) -> None:
    tree = ast.parse((LOOPS / f"{stage}.py").read_text("utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert not names & ({*CLASSES.values(), "Engine"} - {CLASSES[stage]})
