"""Agents and agent jobs in a file: document 003's shape, who does a job, and limits that nobody would keep (R-30)."""

from datetime import timedelta
from pathlib import Path

import pytest

from rota.agents.registry import names
from rota.declare.problems import PROBLEM_CODES
from rota.declare.project import Declared, read_project
from rota.model.agents import PLENTY, Access
from rota.model.budgets import Unit
from rota.model.errors import FileProblems
from rota.model.spec import AgentWork, Draw, JobSpec, Kind, Retry, Spend

FOLDER = Path("/srv/project")


def read(text: str) -> Declared:
    return read_project(FOLDER, environment={"HOME": "/home/ops"}, content=text.encode())


def job(text: str) -> JobSpec:
    [spec] = read(text).jobs
    return spec


def asked(text: str) -> AgentWork:
    work = job(text).work.agent
    assert work is not None
    return work


def problems(text: str) -> list[str]:
    with pytest.raises(FileProblems) as caught:
        read(text)
    assert {problem.code for problem in caught.value.problems} <= set(PROBLEM_CODES)
    return [str(problem) for problem in caught.value.problems]


DOCUMENT_003 = """
agents:
  issue-fixer:
    adapter: claude
    model: sonnet
    max_turns: 30
    access: write
    allowed_tools: [Read, Edit]
    working_directory: repo
    instances: {max_concurrent: 3}
    schedules:
      frequent: {type: interval, interval: 5m, prompt: Fix one issue.}
      nightly: {type: cron, cron: "0 2 * * *", model: opus}
"""


def test_the_schedules_of_an_agent_are_jobs_named_after_it() -> None:
    frequent, nightly = read(DOCUMENT_003).jobs
    assert (frequent.name, nightly.name) == ("issue-fixer/frequent", "issue-fixer/nightly")
    assert frequent.schedule.interval == timedelta(minutes=5)
    assert nightly.schedule.cron == ("0 2 * * *",)
    assert frequent.work.kind is Kind.AGENT
    assert frequent.work.cwd == "/srv/project/repo"


def test_an_agent_of_document_003_names_no_program_and_is_claude() -> None:
    declared = read(DOCUMENT_003.replace("    adapter: claude\n", ""))
    assert declared.jobs == read(DOCUMENT_003).jobs
    assert asked("agents: {codex: {max_concurrent: 2}}\njobs: {j: {prompt: x}}\n").adapter == "codex"


def test_the_jobs_of_an_agent_get_what_it_says_and_may_say_something_else() -> None:
    frequent, nightly = (spec.work.agent for spec in read(DOCUMENT_003).jobs)
    assert frequent == AgentWork(
        agent="issue-fixer",
        adapter="claude",
        provider="anthropic",
        prompt="Fix one issue.",
        model="sonnet",
        access=Access.WRITE,
        max_turns=30,
        allowed_tools=("Read", "Edit"),
        max_concurrent=3,
    )
    assert nightly is not None
    assert (nightly.model, nightly.max_turns, nightly.prompt) == ("opus", 30, "Execute scheduled task")


def test_an_agent_goes_before_the_defaults_and_a_job_before_both() -> None:
    defaults = "defaults: {model: a, max_turns: 1, access: full, cwd: x, env: {A: 1}}\n"
    agents = "agents: {r: {adapter: claude, model: b, max_turns: 2, working_directory: y}}\n"
    spec = job(f"{defaults}{agents}jobs: {{j: {{prompt: x, model: c, env: {{B: 2}}}}}}\n")
    assert spec.work.agent is not None
    assert (spec.work.agent.model, spec.work.agent.max_turns, spec.work.agent.access) == ("c", 2, Access.FULL)
    assert spec.work.cwd == "/srv/project/y"
    assert [variable.name for variable in spec.work.env] == ["A", "B"]


@pytest.mark.parametrize("written", ["max_concurrent: 4", "instances: {max_concurrent: 4}"])
def test_r_04_a_run_draws_on_the_pool_of_all_agents_and_on_that_of_its_own(written: str) -> None:
    found = read(f"agents: {{r: {{adapter: codex, {written}}}}}\njobs: {{j: {{agent: r, prompt: x}}}}\n")
    assert found.jobs[0].pools == (Draw("agent:r"), Draw("agents"), Draw("provider:openai"))
    assert dict(found.settings.pools) == {"agents": 2, "agent:r": 4, "provider:openai": PLENTY}


def test_a_job_may_draw_more_on_the_pool_of_all_agents() -> None:
    spec = job("pools: {agents: 5, gpu: 1}\njobs: {j: {prompt: x, pools: {agents: 2, gpu: 1}}}\n")
    assert spec.pools == (Draw("agent:claude"), Draw("agents", 2), Draw("gpu"), Draw("provider:anthropic"))


@pytest.mark.parametrize(
    ("agents", "keys", "agent", "adapter"),
    [
        ("", "", "claude", "claude"),
        ("", "agent: gemini", "gemini", "gemini"),
        ("", "provider: openai", "codex", "codex"),
        ("", "provider: google", "gemini", "gemini"),
        ("r: {adapter: codex}", "", "r", "codex"),
        ("r: {adapter: codex}", "agent: claude", "claude", "claude"),
        ("r: {adapter: codex}, codex: {}", "", "claude", "claude"),
        ("r: {adapter: codex}, codex: {}", "provider: r", "r", "codex"),
        ("codex: ", "", "codex", "codex"),
    ],
)
def test_who_does_a_job(agents: str, keys: str, agent: str, adapter: str) -> None:
    found = asked(f"agents: {{{agents}}}\njobs: {{j: {{prompt: x, {keys}}}}}\n")
    assert (found.agent, found.adapter) == (agent, adapter)


def test_an_agent_job_reads_alone_has_ten_turns_and_is_not_tried_again() -> None:
    spec = job("jobs: {j: {prompt: x}}\n")
    assert spec.work.agent is not None
    assert (spec.work.agent.access, spec.work.agent.max_turns, spec.work.agent.max_usd) == (Access.READ, 10, None)
    assert spec.retry == Retry(max_attempts=1)
    assert job("jobs: {j: {prompt: x, retry: true}}\n").retry == Retry()
    assert job("defaults: {retry: {max_attempts: 5}}\njobs: {j: {prompt: x}}\n").retry.max_attempts == 5


def test_an_agent_that_keeps_no_number_of_turns_gets_none() -> None:
    assert asked("jobs: {j: {prompt: x, agent: codex}}\n").max_turns is None


def test_a_prompt_file_is_relative_to_the_project() -> None:
    assert asked("jobs: {j: {prompt_file: prompts/a.md}}\n").prompt_file == "/srv/project/prompts/a.md"
    assert asked("jobs: {j: {prompt_file: ~/a.md}}\n").prompt_file == "/home/ops/a.md"


def test_a_task_is_a_prompt() -> None:
    assert asked("jobs: {j: {task: Look around.}}\n").prompt == "Look around."


def test_the_limit_of_a_run_is_its_estimate_in_a_budget_of_money() -> None:
    text = "budgets: {day: {usd: 5, per: day}}\njobs: {j: {prompt: x, budget: day, max_usd: 0.5}}\n"
    assert job(text).budgets == (Spend("day", None, Unit.USD, most=500_000),)
    [told] = problems(text.replace(", max_usd: 0.5", ""))
    assert "there is no estimate of what a run costs" in told


def test_a_job_that_is_wrong_in_another_way_still_says_what_it_costs() -> None:
    text = (
        "budgets: {day: {usd: 5, per: day}}\njobs: {j: {prompt: x, budget: day, max_usd: 0.5, allowed_tools: [Edit]}}\n"
    )
    [told] = problems(text)
    assert "allowed_tools" in told


def test_a_limit_of_the_agent_is_one_of_its_jobs() -> None:
    text = (
        "agents: {r: {adapter: claude, max_usd: 2}}\nbudgets: {day: {usd: 5, per: day}}\n"
        "jobs: {j: {prompt: x, budget: day}}\n"
    )
    assert job(text).budgets[0].most == 2_000_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "jobs: {j: {agent: gemini, prompt: x, max_turns: 5}}\n",
            "1:38: jobs.j.max_turns: gemini cannot enforce it; remove this line",
        ),
        (
            "jobs: {j: {agent: gemini, prompt: x, max_usd: 5}}\n",
            "1:38: jobs.j.max_usd: gemini cannot enforce it; remove this line",
        ),
        (
            "agents: {r: {adapter: codex, max_usd: 1}}\njobs: {j: {prompt: x}}\n",
            "1:30: agents.r.max_usd: codex cannot enforce it; remove this line",
        ),
        (
            "agents: {r: {adapter: codex}}\njobs: {j: {prompt: x, allowed_tools: [Read]}}\n",
            "2:23: jobs.j.allowed_tools: codex cannot enforce it; remove this line",
        ),
        (
            "jobs: {j: {agent: [claude, gemini], prompt: x, max_turns: 5}}\n",
            "1:28: jobs.j.agent[1].max_turns: gemini cannot enforce it; remove this line",
        ),
        (
            "jobs: {j: {agent: [claude, codex], prompt: x, model: opus}}\n",
            "1:47: jobs.j.model: no model fits several agents; give each agent its model in `agents:`",
        ),
        (
            "jobs: {j: {agent: gemini, prompt: x, on_quota: continue, work_source: {directory: .}}}\n",
            (
                "1:38: jobs.j.on_quota: the item of a refused run goes back to its source, so that the session would "
                "get another one; remove this line"
            ),
        ),
        (
            "jobs: {j: {agent: [claude, codex], prompt: x, on_quota: continue}}\n",
            (
                "1:47: jobs.j.on_quota: a session continues with its own agent alone; remove this line: the next agent "
                "of the list takes over"
            ),
        ),
        (
            "jobs: {j: {agent: ollama, prompt: x, model: m, on_quota: continue}}\n",
            "1:48: jobs.j.on_quota: ollama cannot continue a session; remove this line; `retry` starts the task again",
        ),
        (
            "agents: {o: {adapter: ollama, account: w}}\njobs: {j: {prompt: x, model: m}}\n",
            (
                "1:31: agents.o.account: ollama has no login folder that can be chosen; remove this line, and give its "
                "key in `env`"
            ),
        ),
        (
            "agents: {o: {adapter: claude, account: {name: w, dir: logins}}}\njobs: {j: {prompt: x}}\n",
            '1:50: agents.o.account.dir: "logins" is not a whole path; begin it with / or ~/',
        ),
        (
            "jobs: {j: {agent: [claude, claude], prompt: x}}\n",
            "1:12: jobs.j.agent: names an agent or a model twice; remove one",
        ),
    ],
)
def test_r_30_a_limit_that_the_program_cannot_keep_is_refused(text: str, said: str) -> None:
    """R-30: at load, with its place."""
    assert problems(text) == [f"rota.yaml:{said}"]


@pytest.mark.parametrize("told", ["", ", access: write"])
def test_r_30_an_access_that_nobody_keeps_is_refused(told: str) -> None:
    """R-30: what restrains an agent of one's own is in its options, or it has full access and the file says so."""
    agents = "agents: {r: {adapter: custom, options: {argv: [./agent, '{prompt}']}}}\n"
    [said] = problems(f"{agents}jobs: {{j: {{prompt: x{told}}}}}\n")
    assert said.endswith(f"custom cannot enforce access {'write' if told else 'read'}; write `access: full`")
    assert asked(f"{agents}jobs: {{j: {{prompt: x, access: full}}}}\n").access is Access.FULL


@pytest.mark.parametrize("tool", ["Edit", "Bash(git push)", "Write"])
def test_r_30_a_tool_beyond_the_access_is_refused(tool: str) -> None:
    """R-30: a tool that changes things needs an access that does."""
    text = f"jobs: {{j: {{prompt: x, allowed_tools: [Read, {tool}]}}}}\n"
    [said] = problems(text)
    assert said.startswith(f'rota.yaml:1:23: jobs.j.allowed_tools: "{tool}" needs more than the access read; ')
    assert asked(text.replace("prompt: x", "prompt: x, access: write")).allowed_tools == ("Read", tool)


def test_trust_in_the_project_is_off_unless_the_job_or_its_agent_says_so() -> None:
    assert asked("jobs: {j: {prompt: x}}\n").trust_project is False
    assert asked("jobs: {j: {prompt: x, trust_project: true}}\n").trust_project is True
    assert asked("agents: {claude: {trust_project: true}}\njobs: {j: {prompt: x}}\n").trust_project is True
    [said] = problems("jobs: {j: {prompt: x, agent: ollama, model: m, trust_project: true}}\n")
    assert "jobs.j.trust_project: ollama has no setting for trusted folders" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "agents: {r: {adapter: cladue}}\njobs: {j: {agent: r, prompt: x}}\n",
            '1:14: agents.r.adapter: there is no adapter "cladue"; did you mean "claude"?',
        ),
        ("agents: {r: {adapter: 5}}\n", "1:14: agents.r.adapter: 5 is not a text; put it in quotes"),
        ("agents: {r: {adapter: claude, mdoel: x}}\n", '1:31: agents.r.mdoel: unknown key; did you mean "model"?'),
        (
            "agents: {r: {adapter: claude, model: --yolo}}\n",
            '1:31: agents.r.model: "--yolo" begins with `-`; the agent program would read it as an option',
        ),
        (
            "jobs: {j: {prompt: x, model: ' -m --yolo'}}\n",
            '1:23: jobs.j.model: " -m --yolo" begins with `-`; the agent program would read it as an option',
        ),
        (
            "jobs: {j: {prompt: x, allowed_tools: [Read, -p]}}\n",
            '1:45: jobs.j.allowed_tools[1]: "-p" begins with `-`; the agent program would read it as an option',
        ),
        ("agents: {r: 5}\n", "1:10: agents.r: 5 is not a map of keys"),
        ("agents: [r]\n", "1:1: agents: is not a map of agents; write each agent under its name"),
        (
            "agents: {codex: {}, Codex: {adapter: codex}}\n",
            '1:21: agents.Codex: differs from "codex" in case only; choose another name',
        ),
        (
            "agents: {codex: {schedules: {a: {cron: '* * * * *'}, A: {cron: '* * * * *'}}}}\n",
            '1:54: agents.codex.schedules.A: differs from "a" in case only; choose another name',
        ),
        (
            "agents: {codex: {schedules: {a: {type: webhook, prompt: x}}}}\n",
            "1:34: agents.codex.schedules.a.type: webhooks cannot start jobs; use interval or cron",
        ),
        (
            "agents: {codex: {schedules: {a: {type: chat, prompt: x}}}}\n",
            "1:34: agents.codex.schedules.a.type: chats cannot start jobs; use interval or cron",
        ),
        (
            "agents: {codex: {schedules: {a: {type: cron, interval: 5m}}}}\n",
            (
                '1:34: agents.codex.schedules.a.type: "cron" contradicts the other keys; '
                "add `cron:`, or remove this line"
            ),
        ),
        (
            "agents: {codex: {schedules: {a: {interval: 5m, agent: claude}}}}\n",
            "1:48: agents.codex.schedules.a.agent: a schedule of an agent has that agent; remove this line",
        ),
        (
            "agents: {codex: {schedules: {a: {interval: 5m, command: x}}}}\n",
            "1:48: agents.codex.schedules.a.command: is not work for an agent; write `prompt:`",
        ),
        (
            "agents: {codex: {schedules: {a: {interval: 5m, promt: x}}}}\n",
            '1:48: agents.codex.schedules.a.promt: unknown key; did you mean "prompt"?',
        ),
        (
            "agents: {codex: {schedules: {a: {interval: 5m, prompt: ''}}}}\n",
            "1:48: agents.codex.schedules.a.prompt: is empty; write the task, or `prompt_file:`",
        ),
        ("jobs: {j: {prompt: ''}}\n", "1:12: jobs.j.prompt: is empty; write the task, or `prompt_file:`"),
        ('jobs: {j: {prompt: " \\n"}}\n', "1:12: jobs.j.prompt: is empty; write the task, or `prompt_file:`"),
        ("jobs: {j: {task: '  '}}\n", "1:12: jobs.j.task: is empty; write the task, or `prompt_file:`"),
        (
            "jobs: {j: {prompt: x, agent: claud}}\n",
            '1:23: jobs.j.agent: there is no agent "claud"; did you mean "claude"?',
        ),
        (
            "jobs: {j: {prompt: x, provider: acme}}\n",
            f'1:23: jobs.j.provider: there is no agent "acme"; use one of {", ".join(names()[:-1])}',
        ),
        ("jobs: {j: {prompt: x, task: y}}\n", None),
        ("jobs: {j: {prompt: x, agent: custom}}\n", None),
        ("agents: {r: {adapter: custom}}\njobs: {j: {prompt: x}}\n", None),
        (
            "jobs: {j: {command: x, max_turns: 5}}\n",
            (
                "1:24: jobs.j.max_turns: has no effect without an agent's work; "
                "add `prompt:` or `prompt_file:`, or remove this line"
            ),
        ),
        (
            "jobs: {j: {prompt: 'since {{ scheduled_fro }}'}}\n",
            '1:12: jobs.j.prompt: no placeholder is named "scheduled_fro"; did you mean "scheduled_for"?',
        ),
        (
            "jobs: {j: {prompt_file: 'p/{{ params.lang }}.md'}}\n",
            '1:12: jobs.j.prompt_file: the job has no param "lang"; add it to `params:`',
        ),
    ],
)
def test_what_an_agent_or_its_job_cannot_be_is_told_once_with_its_place(text: str, said: str | None) -> None:
    found = problems(text)
    assert len(found) == 1
    assert said is None or found == [f"rota.yaml:{said}"]


def test_the_example_is_what_the_page_tells() -> None:
    folder = Path(__file__).parents[3] / "examples" / "agents"
    hourly, stale, changelog = read_project(folder, environment={"TZ": "UTC", "HOME": "/home/ops"}).jobs
    assert (hourly.name, stale.budgets[0].most) == ("reviewer/hourly", 500_000)
    assert changelog.work.agent is not None
    assert Path(changelog.work.agent.prompt_file).is_file()


def test_the_prompt_job_of_document_000_loads_as_it_is_written() -> None:
    text = """
jobs:
  review_stale_prs:
    interval: 7200
    type: agent
    prompt: |
      Review open PRs older than 48 hours.
    model: haiku
    max_turns: 10
    group: local
"""
    spec = job(text)
    assert spec.schedule.interval == timedelta(hours=2)
    assert spec.work.agent is not None
    assert (spec.work.agent.agent, spec.work.agent.model, spec.work.agent.max_turns) == ("claude", "haiku", 10)
    assert spec.work.agent.prompt == "Review open PRs older than 48 hours.\n"


def test_ollama_is_called_inside_the_scheduler_and_has_to_be_told_which_model() -> None:
    work = job("jobs: {a: {prompt: x, agent: ollama, model: llama3.2}}\n").work
    assert work.agent is not None
    assert (work.agent.called, work.in_process, work.agent.provider) == (True, True, "ollama")
    assert problems("jobs: {a: {prompt: x, agent: ollama}}\n") == [
        "rota.yaml:1:8: jobs.a: ollama needs a model; add `model:`"
    ]


@pytest.mark.parametrize("key", ["env: {A: b}", "env_pass: [A]", "term_grace: 3s", "on_restart: kill", "cwd: sub"])
def test_what_means_something_to_a_process_alone_is_refused_of_an_agent_without_one(key: str) -> None:
    """R-30: nothing is accepted and ignored."""
    [told] = problems(f"jobs: {{a: {{prompt: x, agent: ollama, model: llama3.2, {key}}}}}\n")
    assert told.endswith(
        f".{key.partition(':')[0]}: has no effect: this agent runs inside the scheduler; remove this line"
    )


TEMPLATE = "name: ${{ secrets.TOKEN }}, {{- range .Values }}"


def test_without_placeholders_a_prompt_is_taken_as_it_is_written() -> None:
    work = asked(f"jobs: {{j: {{placeholders: false, prompt: '{TEMPLATE}'}}}}\n")
    assert (work.prompt, work.placeholders) == (TEMPLATE, False)


def test_the_name_of_a_prompt_file_has_placeholders_all_the_same() -> None:
    [problem] = problems("jobs: {j: {placeholders: false, prompt_file: 'p/{{ params.lang }}.md'}}\n")
    assert "the job has no param" in problem


def test_a_command_has_no_use_for_the_switch_of_placeholders() -> None:
    [problem] = problems("jobs: {j: {command: x, placeholders: false}}\n")
    assert "has no effect without an agent's work" in problem


def test_models_of_one_provider_are_held_apart_and_keep_their_own_turns() -> None:
    agents = "agents: {r: {adapter: claude, model: [opus, haiku]}}\n"
    work = asked(f"{agents}jobs: {{j: {{prompt: x, agent: [r, codex]}}}}\n")
    assert [(one.title, one.provider, one.max_turns) for one in work.choices] == [
        ("r (opus)", "anthropic:opus", 10),
        ("r (haiku)", "anthropic:haiku", 10),
        ("codex", "openai", None),
    ]


def test_an_account_has_a_provider_of_its_own() -> None:
    work = asked("agents: {r: {adapter: claude, account: work}}\njobs: {j: {prompt: x}}\n")
    assert (work.account, work.provider) == ("work", "anthropic/work")


@pytest.mark.parametrize(
    "args",
    [
        "[--dangerously-skip-permissions]",
        "[--permission-mode, bypassPermissions]",
        "[--permissionMode=plan]",
        "[--settings, '{}']",
        "[--mcp-config, x]",
        "[--allowed-tools, Bash]",
        "[-c, sandbox_mode=x]",
        "[--effort, high, more]",
        "[--effort, --yolo]",
        "[--, x]",
        "[x]",
        "[--add-dir=/]",
        "[--debug-file, x]",
    ],
)
def test_an_option_that_could_widen_the_access_is_refused(args: str) -> None:
    [said] = problems(f"jobs: {{j: {{prompt: x, args: {args}}}}}\n")
    assert said.startswith("rota.yaml:1:23: jobs.j.args")


def test_an_agent_without_such_an_option_refuses_it() -> None:
    said = problems("jobs: {j: {prompt: x, agent: codex, system_prompt: Short.}}\n")
    assert said == ["rota.yaml:1:37: jobs.j.system_prompt: codex has no such option; remove this line"]


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (
            "mcp_servers: {rota: {command: x}}",
            "mcp_servers.rota: is the name of rota's own server",
        ),
        ("mcp_servers: {a: {}}", "mcp_servers.a: needs either `command` or `url`"),
        ("mcp_servers: {a: {command: x, url: 'https://x'}}", "mcp_servers.a: needs either `command` or `url`"),
        ("mcp_servers: {a: {url: 'file:///x', tools: [b]}}", 'mcp_servers.a.url: "file:///x" is no address'),
        ("mcp_servers: {a: {command: x, tools: ['b,Bash']}}", 'mcp_servers.a.tools[0]: "b,Bash" is not the name of'),
        ("mcp_servers: {a.b: {command: x}}", '"a.b" is not the name of a server'),
        ("mcp_servers: {a: {command: x}}", "mcp_servers.a: names no `tools`, and only `access: full` permits all"),
        ("mcp_servers: [x]", "is not a map of servers"),
        ("profile: --yolo", 'profile: "--yolo" is not the name of a profile'),
    ],
)
def test_a_server_or_profile_that_could_widen_the_access_is_refused(keys: str, told: str) -> None:
    [said] = problems(f"jobs: {{j: {{prompt: x, agent: codex, {keys}}}}}\n")
    assert told in said


@pytest.mark.parametrize("agent", ["gemini", "claude"])
def test_a_program_without_profiles_refuses_one(agent: str) -> None:
    [said] = problems(f"jobs: {{j: {{prompt: x, agent: {agent}, profile: deep}}}}\n")
    assert f"profile: {agent} has no such option; remove this line" in said


def test_each_agent_of_a_list_has_its_own_profile() -> None:
    agents = "agents: {deep: {adapter: codex, profile: deep}}\n"
    assert [one.profile for one in asked(f"{agents}jobs: {{j: {{prompt: x, agent: [claude, deep]}}}}\n").choices] == [
        "",
        "deep",
    ]
