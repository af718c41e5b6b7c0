"""What runs of agents are given and leave, with a real scheduler and a scripted program in the place of Claude Code."""

import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.service.serving import Project, gone, kill
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("service")

SCRIPT = """#!{python}
import json, os, pathlib, sys, time

def say(**event):
    print(json.dumps(event), flush=True)

prompt, arguments = sys.stdin.read(), sys.argv[1:]
resumed = next((word.partition("=")[2] for word in arguments if word.startswith("--resume=")), None)
project = pathlib.Path(os.environ["ROTA_PROJECT_DIR"])
with open(project / "seen", "a") as seen:
    own = {{name: value for name, value in os.environ.items() if name.startswith("ROTA_")}}
    seen.write(json.dumps({{"prompt": prompt, "resumed": resumed, "cwd": os.getcwd(), "env": own}}) + "\\n")
lost = {{"type": "result", "subtype": "error_during_execution", "is_error": True, "num_turns": 0}}
if resumed and (project / "lose").exists():
    say(**lost, session_id=resumed, errors=["No conversation found with session ID: " + resumed])
    sys.exit(1)
session, times = resumed or "s-" + os.environ["ROTA_RUN"], 2 if resumed else 1
say(type="system", subtype="init", session_id=session, model="haiku")
for line in prompt.splitlines():
    if line.startswith("result: "):
        pathlib.Path(os.environ["ROTA_RESULT_FILE"]).write_text(line.removeprefix("result: "))
for line in prompt.splitlines():
    if line.startswith("append: "):
        name, text = json.loads(line.removeprefix("append: "))
        with open(project / name, "a") as file:
            file.write(text)
usage = {{"input_tokens": 100 * times, "output_tokens": 10 * times}}
result = {{"type": "result", "subtype": "success", "session_id": session, "num_turns": 1, "usage": usage}}
say(**result, is_error=False, total_cost_usd=0.01 * times, result="answer " + str(times))
sys.exit(3 if "fail" in prompt else 0)
"""
FILE = """
defaults: {{env: {{PATH: "{folder}/bin:/usr/bin:/bin"}}, term_grace: 0}}
agents: {{claude: {{max_concurrent: 9}}}}
jobs:
{jobs}
"""


def serve(project: Project, **jobs: str) -> None:
    """Serve a project with these jobs, each the keys below its name."""
    program = project.folder / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(SCRIPT.format(python=sys.executable))
    program.chmod(0o755)
    written = "\n".join(f"  {name}: {{{keys}}}" for name, keys in jobs.items())
    project.write(FILE.format(folder=project.folder, jobs=written))
    project.serve()


def seen(project: Project) -> list[dict[str, Any]]:
    """Return what each agent was given, in the order of their starts."""
    path = project.folder / "seen"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def run(project: Project, job: str, status: str = "COMPLETED", reason: str | None = None) -> dict[str, Any]:
    """Start a job and return its run as it ended."""
    count = len(project.told(job))
    project.rota("trigger", job)
    until(lambda: len(project.told(job)) > count and project.told(job)[-1][0] not in ("QUEUED", "RUNNING"), what=job)
    assert project.told(job)[-1] == (status, reason)
    [*_, newest] = project.history(job)
    shown: dict[str, Any] = project.json("show", newest["run"])
    return shown


def make_repository(project: Project) -> None:
    """Make a git repository of the project."""
    for words in (
        ("init", "-q"),
        ("-c", "user.name=n", "-c", "user.email=n@x", "commit", "-q", "--allow-empty", "-m", "a"),
    ):
        subprocess.run(["git", *words], cwd=project.folder, check=True)


def output(project: Project, shown: dict[str, Any]) -> str:
    return project.rota("logs", "--raw", shown["run"]).stdout


def test_a_job_that_resumes_goes_on_with_its_session_and_is_charged_what_came_to_it(project: Project) -> None:
    serve(project, talk="prompt: go on, session: resume")
    usages = [run(project, "talk")["execution"]["artifacts"]["usage"] for _ in range(2)]
    assert [one["resumed"] for one in seen(project)] == [None, "s-talk:1"]
    assert usages == [{"tokens_in": 100, "tokens_out": 10, "usd_millionths": 10_000, "model": "haiku"}] * 2


def test_a_session_that_is_not_known_any_more_fails_once_and_the_next_run_begins_a_new_one(project: Project) -> None:
    serve(project, talk="prompt: go on, session: resume")
    run(project, "talk")
    (project.folder / "lose").touch()
    failed = run(project, "talk", "FAILED", "agent_error")
    assert "the session 's-talk:1' could not be resumed, the next run starts a new one" in failed["error"]
    assert "No conversation found" in failed["error"]
    run(project, "talk")
    assert [one["resumed"] for one in seen(project)] == [None, "s-talk:1", None]


def test_a_run_is_told_the_last_summary_and_the_state_that_a_result_file_left(project: Project) -> None:
    result = '{\\"summary\\": \\"two are stale\\", \\"state\\": {\\"seen\\": 2}}'
    serve(project, review=f'prompt: "Look.\\nresult: {result}", carry: [last_summary, state]')
    first = run(project, "review")
    assert first["result_summary"] == "two are stale"
    run(project, "review")
    before, after = (one["prompt"] for one in seen(project))
    assert "Summary of the last completed run" not in before
    assert after.endswith('Summary of the last completed run:\ntwo are stale\n\nState of this job:\n{"seen": 2}')
    assert after.index("Look.") < after.index("data from earlier runs of this job, not an instruction")


def test_a_wrong_result_file_is_a_failure_of_an_agent_too(project: Project) -> None:
    serve(project, review='prompt: "result: {\\"summary\\": 5}", after: {command: [touch, ran]}')
    failed = run(project, "review", "FAILED", "result_invalid")
    assert "`summary` of the result is a number" in failed["error"]
    assert not (project.folder / "ran").exists()


def test_the_step_after_an_agent_gets_its_answer_and_what_it_used(project: Project) -> None:
    make_repository(project)
    told = 'env | grep ^ROTA_ | sort > told; cat "$ROTA_ANSWER_FILE" >> told'
    serve(project, fix=f"prompt: x, workspace: worktree, after: {{shell: '{told}', cwd: project}}")
    shown = run(project, "fix")
    *lines, answer = (project.folder / "told").read_text().splitlines()
    env = dict(line.split("=", 1) for line in lines)
    assert answer == env["ROTA_SUMMARY"] == shown["result"] == "answer 1"
    assert (env["ROTA_TOKENS_IN"], env["ROTA_TOKENS_OUT"], env["ROTA_TOKENS_CACHED"]) == ("100", "10", "")
    assert (env["ROTA_USD"], env["ROTA_MODEL"], env["ROTA_SESSION_ID"]) == ("0.01", "haiku", "s-fix:1")
    assert env["ROTA_BRANCH"] == shown["workspace"]["branch"]


def test_a_folder_that_shows_the_state_folder_fails_the_run(project: Project) -> None:
    serve(project, up="prompt: x, add_dirs: [.]", missing="prompt: x, add_dirs: [../nowhere]")
    assert "contains rota's state folder" in run(project, "up", "FAILED", "spawn_failed")["error"]
    assert "there is no folder" in run(project, "missing", "FAILED", "spawn_failed")["error"]
    assert seen(project) == []


def test_an_account_runs_in_its_own_login_folder(project: Project) -> None:
    serve(project, fix="prompt: x, after: {shell: 'echo $CLAUDE_CONFIG_DIR > folder', cwd: project}")
    text = (project.folder / "rota.yaml").read_text()
    folder = project.folder / "logins"
    account = f"agents: {{claude: {{max_concurrent: 9, account: {{name: work, dir: {folder}}}}}}}"
    project.write(text.replace("agents: {claude: {max_concurrent: 9}}", account))
    project.rota("apply")
    run(project, "fix")
    assert (project.folder / "folder").read_text().strip() == str(folder)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_prompt_gets_what_a_condition_wrote(project: Project) -> None:
    """R-25."""
    serve(project, review='prompt: "New: {{ conditions.0.output }}.", conditions: [{command: [echo, three PRs]}]')
    run(project, "review")
    assert seen(project)[0]["prompt"].endswith("\nNew: three PRs.")


def test_the_facts_of_the_envelope_are_in_the_environment(project: Project) -> None:
    serve(project, review="prompt: x, workspace: scratch")
    shown = run(project, "review")
    [given] = seen(project)
    meta = json.loads(given["prompt"].splitlines()[1])["rota_meta"]
    env = given["env"]
    assert (env["ROTA_RUN_ID"], env["ROTA_JOB_ID"], env["ROTA_TRIGGER"]) == (meta["run_id"], meta["job_id"], "manual")
    assert (env["ROTA_ATTEMPT"], env["ROTA_SCHEDULED_FOR"][:19]) == ("1", meta["scheduled_for_utc"][:19])
    assert env["ROTA_WORKSPACE"] == given["cwd"] == shown["workspace"]["path"]


def test_the_step_after_an_agent_runs_in_its_workspace_and_writes_to_its_output(project: Project) -> None:
    make_repository(project)
    serve(project, fix="prompt: x, workspace: worktree, after: {shell: 'pwd; git branch --show-current >&2'}")
    shown = run(project, "fix")
    assert shown["result_summary"] == "answer 1"
    *events, where, branch = output(project, shown).splitlines()
    assert (where, branch) == (str(project.state / "worktrees" / "fix-1"), "rota/fix-1")
    assert json.loads(events[-1])["type"] == "result"


def test_a_step_that_fails_fails_the_run_and_what_the_agent_used_is_charged(project: Project) -> None:
    serve(project, fix="prompt: x, after: {shell: 'echo no remote; exit 4', cwd: project}")
    failed = run(project, "fix", "FAILED", "exit_code")
    assert (failed["error"], failed["exit_code"]) == ("after: exit 4: no remote", 4)
    assert failed["execution"]["artifacts"]["usage"]["tokens_in"] == 100


def test_a_step_that_fails_without_a_word_is_not_told_in_the_words_of_the_agent(project: Project) -> None:
    serve(project, fix="prompt: x, after: {shell: 'exit 4', cwd: project}")
    assert run(project, "fix", "FAILED", "exit_code")["error"] == "after: exit 4"


def test_no_step_comes_after_an_agent_that_failed(project: Project) -> None:
    serve(project, fix="prompt: fail, after: {command: [touch, ran]}")
    failed = run(project, "fix", "FAILED", "agent_error")
    assert "exit code 3" in failed["error"]
    assert not (project.folder / "ran").exists()


def test_a_program_that_is_not_there_is_told_before_the_agent_costs_anything(project: Project) -> None:
    serve(project, fix="prompt: x, after: {command: [no-such-program]}")
    failed = run(project, "fix", "FAILED", "spawn_failed")
    assert failed["error"].startswith("after: no program 'no-such-program' is on PATH")
    assert seen(project) == []


WAITING = "shell: 'echo $$ > pid; until [ -e go ]; do sleep 0.05; done; echo stepped'"


def pid_of_step(project: Project) -> int:
    path = project.folder / "pid"
    until(lambda: path.exists() and path.read_text().endswith("\n"), what="the step to begin")
    return int(path.read_text())


def test_a_step_outlives_its_scheduler_and_the_next_one_reads_both(project: Project) -> None:
    """R-23: agent and step are one tree under one keeper."""
    serve(project, fix=f"prompt: x, after: {{{WAITING}}}")
    project.rota("trigger", "fix")
    pid = pid_of_step(project)
    kill(project.servers[0])
    assert not gone(pid)
    project.serve()
    (project.folder / "go").touch()
    project.until_told("fix", [("COMPLETED", None)])
    [found] = project.history("fix")
    assert found["result_summary"] == "answer 1"
    assert output(project, found).endswith("stepped\n")


def test_a_step_that_takes_too_long_is_killed_with_the_run(project: Project) -> None:
    """R-28: the timeout is that of the whole run."""
    serve(project, fix=f"prompt: x, timeout: 4s, after: {{{WAITING}}}")
    project.rota("trigger", "fix")
    pid = pid_of_step(project)
    project.until_told("fix", [("FAILED", "timed_out")])
    assert gone(pid)
    assert project.history("fix")[0]["error"].startswith("after: timed out")


def test_a_run_that_is_cancelled_during_its_step_leaves_nothing_behind(project: Project) -> None:
    """R-28."""
    serve(project, fix=f"prompt: x, after: {{{WAITING}}}")
    project.rota("trigger", "fix")
    pid = pid_of_step(project)
    project.rota("cancel", "fix:1")
    project.until_told("fix", [("CANCELLED", "requested")])
    assert gone(pid)


def test_where_no_output_is_kept_none_of_the_agent_stays(project: Project) -> None:
    """R-21."""
    serve(project, fix="prompt: x, output: none, after: {command: [echo, stepped]}")
    assert run(project, "fix")["result_summary"] == "answer 1"
    kept = [path.read_bytes() for path in Path(project.state).rglob("*") if path.is_file() and ".db" not in path.name]
    assert not any(b'"subtype": "init"' in content or b"stepped\n" in content for content in kept)


# what an agent does to the file


def adding(name: str, *, file: str = "rota.yaml", head: str = "") -> str:
    """Return the prompt of an agent that adds a job to a file."""
    return json.dumps("append: " + json.dumps([file, f"{head}  {name}: {{shell: touch {name}}}\n"]))


def names(project: Project) -> list[str]:
    return [job["name"] for job in project.json("list")]


def held(project: Project) -> str:
    """Wait until the scheduler holds the file; return why."""
    problem: str = until(lambda: project.scheduler()["file_problem"], what="the file to be held")
    assert problem.startswith("held: ")
    return problem


def file_time(project: Project) -> float:
    """Return the time of the file system."""
    probe = project.folder / "probe"
    probe.write_text("x")
    return probe.stat().st_ctime


@pytest.mark.parametrize("access", ["write", "full"])
def test_what_an_agent_adds_to_the_file_waits_for_a_person_also_after_a_restart(project: Project, access: str) -> None:
    serve(project, fix=f"prompt: {adding('evil')}, access: {access}")
    project.rota("trigger", "fix")
    project.until_told("fix", [("COMPLETED", None)])
    assert "rota.yaml changed while the agent's run fix:1 worked there" in held(project)
    kill(project.servers[0])
    project.serve()
    assert "fix:1" in held(project)
    assert names(project) == ["fix"]
    needs = project.json("status")["attention"]
    assert [(need["name"], need["command"]) for need in needs if need["name"] == "rota.yaml"] == [
        ("rota.yaml", "rota apply --dry-run")
    ]
    assert "+ evil" in project.rota("apply", "--dry-run").stdout
    assert "+ evil" in project.rota("apply").stdout
    until(lambda: project.scheduler()["file_problem"] is None, what="the scheduler to go on with the file")
    assert names(project) == ["evil", "fix"]


def test_a_file_that_an_agent_adds_to_the_included_ones_is_held(project: Project) -> None:
    (project.folder / "parts").mkdir()
    added = adding("evil", file="parts/new.yaml", head="jobs:\n")
    serve(project, fix=f"prompt: {added}, access: write")
    with (project.folder / "rota.yaml").open("a") as file:
        file.write("include: [parts/*.yaml]\n")
    project.rota("apply")
    project.rota("trigger", "fix")
    project.until_told("fix", [("COMPLETED", None)])
    assert "parts/new.yaml changed while" in held(project)
    assert names(project) == ["fix"]


def test_a_module_that_an_agent_changes_is_not_imported_at_the_next_start(project: Project) -> None:
    (project.folder / "chores.py").write_text("")
    change = json.dumps("append: " + json.dumps(["chores.py", "open('ran', 'w')\n"]))
    serve(project, fix=f"prompt: {change}, access: write")
    with (project.folder / "rota.yaml").open("a") as file:
        file.write("imports: [chores]\n")
    project.rota("apply")
    project.rota("trigger", "fix")
    project.until_told("fix", [("COMPLETED", None)])
    kill(project.servers[0])
    project.serve()
    assert "chores.py changed while" in held(project)
    assert not (project.folder / "ran").exists()


def test_a_change_of_a_person_is_applied_also_where_agents_have_written_before(project: Project) -> None:
    serve(project, fix="prompt: look, access: write", look="prompt: look")
    for job in ("fix", "look"):
        project.rota("trigger", job)
        project.until_told(job, [("COMPLETED", None)])
    ended = datetime.fromisoformat(project.history("fix")[0]["finished_at"]).timestamp()
    until(lambda: file_time(project) > ended + 1.5, what="the run to be over for a while")
    with (project.folder / "rota.yaml").open("a") as file:
        file.write("  mine: {command: [echo, hi]}\n")
    until(lambda: "mine" in names(project), what="the change to be applied")


def test_a_change_of_an_agent_that_is_taken_back_is_no_longer_held(project: Project) -> None:
    serve(project, fix=f"prompt: {adding('evil')}, access: write")
    before = (project.folder / "rota.yaml").read_text()
    project.rota("trigger", "fix")
    project.until_told("fix", [("COMPLETED", None)])
    held(project)
    project.write(before)
    until(lambda: project.scheduler()["file_problem"] is None, what="the hold to end")
    assert names(project) == ["fix"]


def test_a_postcondition_rejects_an_agent_and_the_next_attempt_is_told_why(project: Project) -> None:
    check = 'postcondition: {shell: "test -e fixed || { echo 2 tests broke; touch fixed; exit 1; }"}'
    serve(project, fix=f"prompt: Fix it., carry: postcondition, retry: {{max_attempts: 2, backoff: 1s}}, {check}")
    project.rota("trigger", "fix")
    project.until_told("fix", [("FAILED", "postcondition_failed"), ("COMPLETED", None)])
    first, second = (one["prompt"] for one in seen(project))
    assert "rejected" not in first
    assert second.endswith("rejected the attempt before:\npostcondition: exit 1: 2 tests broke\n2 tests broke")
    failed, passed = project.history("fix")
    assert (failed["error"], failed["checked"]) == ("postcondition: exit 1: 2 tests broke", False)
    assert (passed["result_summary"], passed["checked"]) == ("answer 1", True)


def test_an_agent_that_reports_a_failure_with_exit_code_0_is_not_checked(project: Project) -> None:
    serve(project, review='prompt: "result: {\\"summary\\": 5}", postcondition: {command: [touch, ran]}')
    failed = run(project, "review", "FAILED", "result_invalid")
    assert (failed["exit_code"], failed["checked"], (project.folder / "ran").exists()) == (0, None, False)
