"""`rota answer` dies by kill -9 inside its transaction: the question stays open, and the next answer counts once."""

import json

from rota.faults import VARIABLE
from tests.service.serving import Project
from tests.service.test_chats import ask_for, stored


def test_an_answer_that_dies_before_its_commit_leaves_the_question_open(project: Project) -> None:
    project.write("jobs: {talk: {command: [echo, hi]}}\n")
    project.rota("apply")
    question = ask_for(project, "Deploy?")
    faults = project.folder / "faults.json"
    faults.write_text(json.dumps({"crash": {"question.answered": 1}}))
    faults.chmod(0o600)
    usual = project.environment
    project.environment = lambda: {**usual(), VARIABLE: str(faults)}  # type: ignore[method-assign]
    died = project.rota("answer", str(question.number), "yes", check=False, apart=True)
    project.environment = usual  # type: ignore[method-assign]

    assert died.returncode == -9
    assert stored(project, question.number).is_open
    project.rota("answer", str(question.number), "no")
    assert stored(project, question.number).answer == "no"
    assert [entry["action"] for entry in project.json("audit") if entry["action"] == "answer"] == ["answer"]
    assert project.json("verify")["violations"] == []
