"""What to answer to a key that rota does not know: fixed words first, then the nearest name."""

from collections.abc import Collection

from rota.rules.nearest import did_you_mean

GROUPS = "jobs that belong together are members of a group: `groups: {nightly: {members: [extract, load]}}`"

JOB_WORDS = {
    "every": "intervals are written `interval: 30m`",
    "expression": 'write `cron: "30 2 * * *"`',
    "schedule": 'times are written `cron: "30 2 * * *"`, `interval: 30m` or `at: "2026-11-15 08:30"`',
    "when": "gates are written `conditions: [network_up]`",
    "if": "gates are written `conditions: [network_up]`",
    "cmd": "write `command: [program, argument]`, or `shell:` for a shell's text",
    "script": "write `command: [program, argument]`, `shell:` for a shell's text, or `run:` for a Python function",
    "exec": "write `command: [program, argument]`, or `shell:` for a shell's text",
    "function": "Python functions are written `run: name` or `run: module:function`",
    "tz": "write `timezone: Europe/Paris`",
    "catchup": "missed instants are governed by `misfire: skip | once | all`",
    "catch_up": "missed instants are governed by `misfire: skip | once | all`",
    "coalesce": "missed instants are governed by `misfire: skip | once | all`",
    "concurrency_policy": "write `overlap: forbid | queue | replace | allow`",
    "environment": "write `env: {NAME: value}`",
    "dir": "write `cwd: folder`",
    "workdir": "write `cwd: folder`",
    "tags": "write `labels: [backup]`",
    "exclude": "dates without runs are written `except: [2026-12-25, holidays.ics]`",
    "excluded": "dates without runs are written `except: [2026-12-25, holidays.ics]`",
    "holidays": "dates without runs are written `except: [2026-12-25, holidays.ics]`",
    "maintenance": 'recurring windows are written `quiet_hours: {windows: ["sun 02:00-04:00"], policy: skip}`',
    "maintenance_windows": 'recurring windows are written `quiet_hours: {windows: ["sun 02:00-04:00"], policy: skip}`',
    "disabled": "write `enabled: false`",
    "user": "a job runs as the user of the scheduler",
    "name": "a job's name is its key under `jobs:`",
    "retries": "write `retry: {max_attempts: 4}` for three retries; it counts the first attempt",
    "max_retries": "write `retry: {max_attempts: 4}` for three retries; it counts the first attempt",
    "max_attempts": "write `retry: {max_attempts: 3}`",
    "backoff": "write `retry: {backoff: 30s}`",
    "retry_delay": "write `retry: {backoff: 30s}`",
    "depends_on": GROUPS,
    "needs": GROUPS,
    "on_failure": "who is told is written `notify: {on: [failed], webhook: https://host/path}`",
    "on_success": "who is told is written `notify: {on: [completed], webhook: https://host/path}`",
    "webhook": "write `notify: {on: [failed], webhook: https://host/path}`",
    "mailto": "write `notify: {on: [failed], apprise: {secret: MAIL_URL}}`",
    "deadline": 'write `finish_by: "06:00"`',
    "resources": "capacities are drawn on by `pools: [ollama]`, or with a cost `pools: {gpu: 2}`",
    "pool": "write `pools: [ollama]`",
    "queue": "how many run at once is bounded by `pools: [name]`; one job's own queue is `overlap: queue`",
    "budgets": "write `budget: claude-day`, or a list of accounts",
}
"""Fixed hints for words people type in a job; none of them is ever accepted."""

GROUP_WORDS = {
    **{word: hint for word, hint in JOB_WORDS.items() if word != "on_failure"},
    "jobs": "write `members: [extract, load]`",
    "steps": "write `members: [extract, load]`",
    "tasks": "write `members: [extract, load]`",
    "runs": "write `members: [extract, load]`",
    "parallel": "write `mode: parallel`",
    "sequential": "write `mode: sequential`",
    "always": "it belongs to a member: `{job: report, always: true}`",
    "name": "a group's name is its key under `groups:`",
    "depends_on": "members of a sequence run in the order in which they are written",
    "needs": "members of a sequence run in the order in which they are written",
}
"""Fixed hints for words people type in a group."""

TOP_WORDS = {
    "maintenance": 'recurring windows are written `quiet_hours: {windows: ["sun 02:00-04:00"], policy: skip}`',
    "except": "it belongs into `defaults:` or a job",
    "holidays": "dates without runs are written `except: [2026-12-25, holidays.ics]`, in `defaults:` or a job",
    "group": GROUPS,
    "tz": "write `timezone: Europe/Paris`",
    "import": "write `imports: [module]`",
    "modules": "write `imports: [module]`",
    "resources": "write `pools: {ollama: 1}`",
    "targets": "write `notify: {ops: {on: [failed], webhook: https://host/path}}`",
    "webhooks": "write `notify: {ops: {on: [failed], webhook: https://host/path}}`",
    "budget": "accounts are declared in `budgets:`; a job names one by `budget:`",
    "price": "write `prices: {sonnet: {input: 3.00, output: 15.00}}`",
    "includes": "write `include: [jobs.d/*.yaml]`",
    "database": "write `store: postgresql://user@host/database`; without it the state is in SQLite",
    "postgres": "write `store: postgresql://user@host/database`",
    "concurrency": "it belongs into `scheduler:`",
    "tick": "it belongs into `scheduler:`",
    "aging": "it belongs into `scheduler:`",
    "timeout": "it belongs into `scheduler:`, `defaults:` or a job",
    "env": "it belongs into `defaults:` or a job",
}
"""Fixed hints for words people type at the top of the file."""


def unknown_key(key: str, known: Collection[str], words: dict[str, str] | None = None) -> str:
    """Return the hint for an unknown key.

    >>> unknown_key("intervall", ["cron", "interval"])
    'did you mean "interval"?'
    """
    if words and (fixed := words.get(key.lower())):
        return fixed
    return did_you_mean(key[:100].lower().replace("-", "_"), known, cutoff=0.75)
