"""The JSON Schema for editors, and the reference page beside it."""

import re
from pathlib import Path

import jsonschema
import pytest

from rota.declare.keys import JOB, PROJECT, RETENTION, SCHEDULER
from rota.declare.problems import PROBLEM_CODES
from rota.declare.project import read_project
from rota.declare.schema import json_schema
from rota.declare.yaml import parse
from rota.model.errors import FileProblems

DOCS = Path(__file__).parents[3] / "docs"
PAGE = "".join(path.read_text() for path in sorted([*DOCS.glob("configuration*.md"), *DOCS.glob("*-keys.md")]))
PROBLEMS = (DOCS / "file-problems.md").read_text()
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def validator():
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def valid(validator, text: str) -> bool:
    return validator.is_valid(parse(text.encode()).data)


def test_the_page_has_examples():
    assert len(EXAMPLES) >= 3


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_example_of_the_page_is_valid_by_schema_and_by_rota(validator, tmp_path, text):
    assert list(validator.iter_errors(parse(text.encode()).data)) == []
    (tmp_path / "rota.yaml").write_text(text)
    assert read_project(tmp_path, environment={}).jobs


GOOD = [
    "http: {public_url: https://x, oidc: {issuer: https://i.test, client_id: r, client_secret: {secret: S}}}\njobs:\n",
    "http: {trusted_header: X-User, proxies: [10.0.0.5], proxy_secret: {secret: P}, people: {a@b.c: run}}\njobs:\n",
    "secrets: {A: {command: [op, read, x], timeout: 5s}, B: {file: ~/b}, C: {keyring: a/b}}\njobs:\n",
    "jobs: {a: {command: x, ping: {secret: HC}}, b: {command: x, ping: none}}\n",
    "notify: {me: {telegram: 1, digest: ['07:30', '18:00'], on: [attention, resolved]}}\njobs:\n",
    """
notify:
  p: {telegram: {chat: 5, users: [7], commands: {run: [a], status: true}, questions: false}}
  s: {slack: {channel: C012345, bot_token: {secret: B}, app_token: {secret: A}, users: [U012345]}}
jobs: {a: {prompt: x, deliver: {to: [p], when: always}}, b: {prompt: x, deliver: s}}
""",
    "scheduler: {keep_awake: on_ac}\njobs: {a: {cron: '@daily', wake: true, command: x}}\n",
    "agents: {a: {adapter: codex, require_certified: true}}\njobs: {j: {agent: a, prompt: x}}\n",
    "jobs: {a: {prompt: x, session: resume, session_max_age: 7d, session_max_turns: 200}}\n",
    "jobs: {a: {interval: 1h, pace: {min: 5m, max: 1d}, command: x}}\n",
    "jobs: {a: {command: x, conditions: [on_ac_power, 'battery_above(30%)']}}\n",
    "jobs:\n",
    "jobs: {a: {interval: 90, command: [x, 1, true]}}\n",
    "jobs: {a: {interval: ' 5M ', command: x}}\n",
    "jobs: {a: {command: x, overlap_policy: queue, timeout_seconds: 5, working_directory: x}}\n",
    "jobs: {a: {type: script, run: 'textwrap:dedent'}}\n",
    "jobs: {a: {command: x, term_grace: 0, timeout: never}}\n",
    "jobs: {a: {cron: '@daily', jitter: 10%, command: x}}\n",
    "jobs: {a: {at: 2026-11-15T08:30:00 +01:00, command: x}}\n",
    "retention: {runs: forever, output_total: 5 gb}\n",
    "agents: {codex: {schedules: {a: {type: interval, interval: 5m}}}, r: {adapter: claude, max_usd: 0.5}}\n",
    "jobs: {a: {prompt: x, type: agent, access: write}}\n",
    "jobs: {a: {prompt: x, on_quota: continue, workspace: worktree}}\n",
    "jobs: {a: {prompt: x, args: [--effort, high], system_prompt: Short., add_dirs: [../b]}}\n",
    "jobs: {a: {prompt: x, mcp_servers: {d: {command: [npx, d], tools: [a]}, e: {url: 'https://x/y', tools: [b]}}}}\n",
    "agents: {c: {adapter: codex, profile: deep}}\njobs: {a: {prompt: x, agent: c}}\n",
    "agents: {a: {adapter: claude, account: w}, b: {adapter: codex, account: {name: p, dir: ~/p}}}\njobs:\n",
    "agents: {r: {adapter: claude, model: [opus, haiku]}}\njobs: {a: {prompt: x, agent: [r, codex]}}\n",
    "jobs: {a: {command: x, postcondition: {command: [make, test], timeout: 5m}}}\n",
    "jobs: {a: {command: x, idle_timeout: 5m}, b: {prompt: x, idle_timeout: never, loop_guard: 3}}\n",
    "agents: {claude: {loop_guard: never}}\n",
    "jobs: {a: {command: x, sandbox: bubblewrap, limits: {memory: 2GB, cpus: 1.5, processes: 200}}}\n",
    "jobs: {a: {command: x, sandbox: {bubblewrap: true, network: [a.example, '*.b.example:443'], write: [~/x]}}}\n",
    "jobs: {a: {command: x, sandbox: {container: i, runtime: podman, network: off, cpus: 2, user: '1000'}}}\n",
    "defaults: {sandbox: bubblewrap}\njobs: {a: {command: x, sandbox: none}}\n",
    "jobs: {a: {prompt: x, carry: [postcondition], postcondition: {shell: make test}}}\n",
]


@pytest.mark.parametrize("text", GOOD)
def test_what_rota_takes_the_schema_takes(validator, tmp_path, text):
    (tmp_path / "rota.yaml").write_text(text)
    read_project(tmp_path, environment={})
    assert valid(validator, text)


BAD = [
    "job: {}\n",
    "jobs: [a]\n",
    "jobs: {a b: {command: x}}\n",
    "jobs: {a: {every: 5m, command: x}}\n",
    "jobs: {a: {interval: 5m}}\n",
    "jobs: {a: {prompt: x, command: y}}\n",
    "agents: {codex: {schedules: {a: {interval: 5m, command: x}}}}\n",
    "agents: {codex: {acess: read}}\n",
    "jobs: {a: {command: x, shell: y}}\n",
    "jobs: {a: {command: x, cron: '* * * * *', interval: 5m}}\n",
    "jobs: {a: {command: x, interval: 5 minutes}}\n",
    "jobs: {a: {command: x, interval: 0}}\n",
    "jobs: {a: {command: x, interval: }}\n",
    "jobs: {a: {command: x, overlap: sometimes}}\n",
    "jobs: {a: {command: x, priority: 1001}}\n",
    "jobs: {a: {command: x, enabled: yes}}\n",
    "jobs: {a: {command: x, env: {ROTA_X: 1}}}\n",
    "jobs: {a: {command: x, env: {A: [1]}}}\n",
    "jobs: {a: {command: x, conditions: [{}]}}\n",
    "jobs: {a: {command: x, at: tomorrow}}\n",
    "jobs: {a: {command: x, params: {a-b: 1}}}\n",
    "jobs: {a: {command: []}}\n",
    "jobs: {a: {command: x, postcondition: make test}}\n",
    "jobs: {a: {prompt: x, loop_guard: 1}}\n",
    "jobs: {a: {command: x, sandbox: {network: off}}}\n",
    "jobs: {a: {command: x, sandbox: {container: i, network: [a.example]}}}\n",
    "jobs: {a: {command: x, limits: {}}}\n",
    "jobs: {a: {command: x, postcondition: {timeout: 5m}}}\n",
    "defaults: {cron: '* * * * *'}\n",
    "scheduler: {concurrency: 0}\n",
    "retention: {runs: always}\n",
]


@pytest.mark.parametrize("text", BAD)
def test_what_the_schema_refuses_rota_refuses_too(validator, tmp_path, text):
    (tmp_path / "rota.yaml").write_text(text)
    assert not valid(validator, text)
    with pytest.raises(FileProblems):
        read_project(tmp_path, environment={})


def test_every_key_has_a_description_in_the_schema():
    schema = json_schema()
    sections = [schema, *schema["$defs"].values()]
    bare = [key for section in sections for key, part in section["properties"].items() if "description" not in part]
    assert bare == []


@pytest.mark.parametrize("table", [PROJECT, JOB, SCHEDULER, RETENTION], ids=lambda table: table.title)
def test_every_key_is_on_the_page(table):
    rows = {key for row in re.findall(r"^\|([^|]*)\|", PAGE, re.MULTILINE) for key in re.findall(r"`([a-z_]+)`", row)}
    mentioned = rows | set(re.findall(r"; `([a-z_]+)`[^;|]* accepted too", PAGE))
    assert set(table.keys) - mentioned == set()


def test_every_code_is_on_the_page_and_described_as_in_the_code():
    for code, meaning in PROBLEM_CODES.items():
        assert f"| `{code}` | {meaning} |" in PROBLEMS
