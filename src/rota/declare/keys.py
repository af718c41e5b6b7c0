"""The keys of a job and of each section, in one table, and how a map of keys is read.

Checks, JSON Schema, `rota export` and the plan of `rota apply` come from this table. The default of a key is that of
the field that holds its value: in `model/spec.py` for jobs, in `settings.py` for sections.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from rota.declare import types
from rota.declare.applicability import NEEDS, JobShape, KeyRequirement
from rota.declare.problems import GROUP_WORDS, JOB_WORDS, TOP_WORDS, BadValue, ProblemList, unknown_key, wrong_type
from rota.model.errors import Problem


class Key(NamedTuple):
    """One key of a map: its name, the kind of its value, and its description."""

    name: str
    value: types.Value
    description: str


class Map:
    """A map in the file that knows its keys; `words` are hints for keys that people type by mistake."""

    def __init__(
        self, title: str, description: str, keys: Iterable[Key], *, words: dict[str, str] | None = None
    ) -> None:
        self.title, self.description, self.words = title, description, words
        self.keys = {key.name: key for key in keys}


def _nested(table: Map) -> types.Value:
    def read(raw: Any) -> dict[str, Any]:
        with ProblemList() as problems:
            values, wrong = read_map(table, raw)
            problems.add(*wrong)
        return values

    return types.Value(read, {"$ref": f"#/$defs/{table.title}"})


RETENTION_KEYS = Map(
    "RetentionEntry",
    "How long a job's rows and output are kept; `forever` is a value.",
    (
        Key("runs", types.kept, "How long rows of executed runs are kept."),
        Key("skipped", types.kept, "How long rows of skipped instants are kept."),
        Key("skipped_count", types.kept_count, "How many rows of skipped instants a job keeps at most."),
        Key("output", types.kept, "How long the output of a run is kept."),
    ),
)

_POLICY_KEYS = (
    Key("timezone", types.zone, "The IANA time zone of the job's times; the file's own when absent."),
    Key("anchor", types.anchor, "What an interval counts from: the end of a run, its start, or a fixed grid."),
    Key(
        "first_run",
        types.first_run,
        "When a new interval job runs first: as soon as it is applied, or an interval later.",
    ),
    Key(
        "jitter",
        types.jitter_value,
        "A delay chosen by hash: up to 50% of the gap to the next instant, or up to a duration.",
    ),
    Key("misfire", types.misfire, "What happens to instants noticed too late: skip, run the latest once, or run all."),
    Key("misfire_grace", types.duration, "How late an instant may be noticed and still count as on time."),
    Key("misfire_limit", types.count, "How many missed instants `misfire: all` runs, the newest."),
    Key("misfire_max_age", types.duration, "How late a missed instant may still start under `misfire: once` or `all`."),
    Key(
        "overlap",
        types.overlap,
        "What happens when the job is due while a run is unfinished: skip, wait, replace it, or start.",
    ),
    Key("overlap_policy", types.overlap, "Accepted spelling of `overlap`."),
    Key("queue_depth", types.count, "How many runs may wait behind the running one under `overlap: queue`."),
    Key(
        "on_repeated_failure",
        types.repeated_failure_policy,
        "When a job that keeps failing is held back: {after: 5, backoff_max: 1d}, true for that, or false.",
    ),
    Key("except", types.exceptions, "Dates without runs: [2026-12-25, 12-24 (every year), holidays.ics]; [] for none."),
    Key(
        "notify",
        types.notify,
        "Targets of its notifications: names of `notify`, or {on: [failed], webhook: …}; or `none`.",
    ),
    Key("labels", types.labels, "Words to filter by: a list, or a map that becomes key=value."),
    Key("enabled", types.flag, "Whether the job fires and can be started."),
    Key("description", types.note, "A text for people, at most 1,000 characters."),
    Key("retention", _nested(RETENTION_KEYS), "How long this job's rows and output are kept."),
)
"""Keys that a job, a group and `defaults:` have in common."""

_SCHEDULE_KEYS = (
    Key("cron", types.cron, "When: five cron fields in quotes, a list of such texts, or @reboot."),
    Key(
        "interval",
        types.interval,
        "When: a duration between runs, counted from `anchor`; or by mode {active: 15s, dormant: never}.",
    ),
    Key("interval_active", types.mode_interval, "Accepted spelling of `interval: {active: …}`."),
    Key("interval_idle", types.mode_interval, "Accepted spelling of `interval: {idle: …}`."),
    Key("interval_dormant", types.mode_interval, "Accepted spelling of `interval: {dormant: …}`."),
    Key("at", types.instant, "When: one point in time, in the job's zone or with an offset."),
    Key("start_at", types.instant, "No instant before this one."),
    Key("end_at", types.instant, "No instant at or after this one."),
    Key("run_once", types.flag, "Whether the job is disabled after its first run."),
    Key(
        "finish_by",
        types.time_of_day,
        "The time of the day by which a scheduled run must have finished, otherwise `late` is sent.",
    ),
    Key("quiet_hours", types.own_quiet_hours, "The job's own quiet hours in place of the file's, or `ignore`."),
    Key("wake", types.flag, "Whether a machine that sleeps is woken for its instants, where it allows that."),
)
"""When a job or a group is due."""

_SHARED_KEYS = (
    Key("shell_with", types.argv, "The program and arguments that get a shell job's text as their last one."),
    Key(
        "python",
        types.text,
        "Another Python interpreter for functions, relative to the project; they then run as processes.",
    ),
    Key(
        "params",
        types.job_params,
        "Named values for the run: ROTA_PARAM_NAME, placeholders, `ctx.params`; each a value, or a kind such as "
        "{type: int, min: 1, max: 10, default: 3} or {one_of: [eu, us], default: eu}; at most 64 KB as JSON.",
    ),
    Key("env", types.env, "Environment variables: a text, a number, true or false, or {secret: NAME}."),
    Key(
        "env_pass",
        types.list_of("env_pass", types.env_name),
        "Variables of the scheduler's own environment that the job gets too.",
    ),
    Key("env_file", types.text, "A file of NAME=value lines, relative to the project, read at each start."),
    Key("cwd", types.text, "The folder the work runs in, relative to the project; `~` is the home folder."),
    Key("working_directory", types.text, "Accepted spelling of `cwd`."),
    Key(
        "ping",
        types.ping,
        "A health check that hears of each start, success and failure: an address, {secret: NAME}, or `none`.",
    ),
    Key("timeout", types.timeout, "How long a run may take; `never` for no limit; else `scheduler.timeout`."),
    Key("timeout_seconds", types.seconds, "Accepted spelling of `timeout`, in whole seconds."),
    Key(
        "idle_timeout",
        types.timeout,
        "How long a run may produce no output before it is stopped; `never` for no limit.",
    ),
    Key("term_grace", types.grace, "How long a stopped run has between TERM and KILL; 0 kills at once."),
    Key("isolate", types.isolate, "Where a function runs: in the scheduler, or in a process that can be killed."),
    Key(
        "output",
        types.output,
        "How much output is kept: first and last part, also for other machines, only the last, or nothing.",
    ),
    Key(
        "on_restart",
        types.on_restart,
        "What a new scheduler does with a run that survived the old one: adopt it, or kill it.",
    ),
    Key(
        "conditions",
        types.list_of("conditions", types.gate),
        "Gates that must all pass: registered names, or {command: …} that exits 0 (true) or 10 (false).",
    ),
    Key(
        "when_false",
        types.when_false,
        "What a false condition does: the run waits (interval jobs) or is skipped (others).",
    ),
    Key("recheck", types.duration, "How often the conditions of a waiting run are checked again."),
    Key("needs_poll", types.flag, "Whether a run waits for the shared poll and gets its data (`ctx.poll_data`)."),
    Key("expires_after", types.duration, "How long a run may wait in the queue before it is skipped as expired."),
    Key(
        "retry",
        types.retry_policy,
        "How often a failed run is tried again, and after how long: "
        "{max_attempts: 3, backoff: 10s, factor: 2, max: 10m, jitter: 20%}, or false.",
    ),
    Key("retry_policy", types.retry_policy, "Accepted spelling of `retry`."),
    Key("pools", types.draws, "What a run draws on while it runs: [ollama], or with a cost {gpu: 2}; [] for nothing."),
    Key("budget", types.accounts, "What a run is charged to: an account of `budgets`, or a list; [] for none."),
    Key(
        "estimate",
        types.estimates,
        "What a run is expected to cost, in the account's unit: a number, or one for each account.",
    ),
    Key("priority", types.priority, "Higher goes first in the queue, -1000 to 1000."),
    Key(
        "agent",
        types.agent_names,
        "The agent of a prompt: an entry of `agents`, or the name of an adapter; or a list, the preferred first.",
    ),
    Key("provider", types.text, "Accepted from older tools: anthropic, openai or google, for the agent."),
    Key("model", types.models, "The model that the agent uses, or a list, the preferred first; its default if absent."),
    Key("access", types.access, "What the agent may do: read, ask, write, or full; each adapter translates it."),
    Key("args", types.words, "Further long options of the agent's program, such as [--effort, high]."),
    Key("system_prompt", types.text, "A text that is added to the agent's system prompt."),
    Key("add_dirs", types.folders, "Further folders for the agent, with the access of its own."),
    Key("mcp_servers", types.mcp_servers, "Further MCP servers for the agent, each with the tools that it may call."),
    Key("profile", types.profile, "The named settings of the agent's program, such as a profile of Codex."),
    Key("max_turns", types.count, "How many turns the agent may take, where its adapter can keep it."),
    Key("max_usd", types.money, "What one run may cost in dollars, where the adapter can keep it."),
    Key(
        "loop_guard",
        types.loop_guard,
        "How often in a row an agent may make the same tool call, where its adapter shows calls; or `never`.",
    ),
    Key(
        "allowed_tools",
        types.list_of("allowed_tools", types.argument),
        "The tools the agent may use, where its adapter can keep it.",
    ),
    Key(
        "answered_by",
        types.list_of("answered_by", types.text),
        "The actors that may answer questions of its runs, as `rota audit` names them; any if absent.",
    ),
    Key("session", types.session, "Whether a run starts a new session, or continues the job's newest."),
    Key("session_max_age", types.duration, "How old a session gets before a run starts a new one."),
    Key("session_max_turns", types.turns, "How many turns a session has before a run starts a new one."),
    Key("on_quota", types.on_quota, "What follows a rate limit: fail, or continue the session when the limit is over."),
    Key(
        "carry",
        types.carried,
        "What a run gets of earlier ones: last_summary, state, postcondition, or a list of them; [] for nothing.",
    ),
    Key(
        "workspace",
        types.workspace,
        "Where the agent works: in `cwd` itself, in a git worktree of its own, or in an empty folder.",
    ),
    Key("rota_tools", types.flag, "Whether the agent gets rota's tools, to read jobs and create its own."),
    Key(
        "trust_project",
        types.flag,
        "Whether the program runs hooks, plugins and MCP servers of the folder's own settings.",
    ),
    Key(
        "placeholders",
        types.flag,
        "Whether placeholders in the prompt are filled; with false the agent gets the text unchanged.",
    ),
    Key(
        "work_source",
        types.work_source,
        "Where a run gets its item: {github: owner/name, token: {secret: NAME}}, {directory: path}, "
        "{http: url} or {run: module:Class}.",
    ),
    Key(
        "deliver",
        types.deliver,
        "Where the whole answer of the agent goes: {to: TARGET, when: always | said | failed}; failures always go.",
    ),
    Key(
        "after",
        types.after,
        "A step once the agent has succeeded: {command: […], cwd: workspace | project}, or {shell: …}.",
    ),
    Key(
        "postcondition",
        types.postcondition,
        "A check after the work's success: {command: […], timeout: 5m}, or {shell: …}; if it fails, the run is FAILED.",
    ),
    Key(
        "sandbox",
        types.sandbox,
        "What encloses a run's processes: bubblewrap, {bubblewrap: true, network: off}, {container: IMAGE}, or none.",
    ),
    Key("limits", types.run_limits, "The most that a run may use: {memory: 2GB, cpus: 1.5, processes: 200}."),
)
"""Keys that a job and `defaults:` have in common."""

DEFAULTS = Map(
    "DefaultsSection",
    "Keys for all jobs; a job's own key wins, `env` and `labels` are merged.",
    (*_POLICY_KEYS, *_SHARED_KEYS),
    words=JOB_WORDS,
)

JOB = Map(
    "JobEntry",
    "One job: one kind of work, at most one schedule, and its policies.",
    (
        *_SCHEDULE_KEYS,
        Key("command", types.argv, "Work: a program and its arguments, as a list or a plain text without shell."),
        Key("shell", types.text, "Work: a text for the shell."),
        Key("prompt", types.prompt, "Work: a task for an agent."),
        Key("prompt_file", types.text, "Work: a file with a task for an agent, relative to the project."),
        Key("task", types.prompt, "Accepted spelling of `prompt`."),
        Key("run", types.function_name, "Work: a registered Python function, or module:function."),
        Key("group", types.poll_group, "Accepted from older files: `remote` is `needs_poll: true`, `local` is false."),
        Key(
            "pace",
            types.pace,
            "The bounds of the wait for the next run that a run chooses with `look_again`: {min: 5m, max: 1d}.",
        ),
        Key("type", types.work_type, "Accepted from older files; must agree with the work: `script` is `run`."),
        *_POLICY_KEYS,
        *_SHARED_KEYS,
    ),
    words=JOB_WORDS,
)

GROUP = Map(
    "GroupEntry",
    "One group: runs of jobs that belong together, at most one schedule, and its policies.",
    (
        *_SCHEDULE_KEYS,
        *_POLICY_KEYS,
        Key("mode", types.group_mode, "Whether the members run one after another, or side by side."),
        Key(
            "on_failure",
            types.on_failure,
            "What a member that failed or was cancelled does: stop those that have not started, or nothing.",
        ),
        Key(
            "members",
            types.members,
            "The jobs that run, in order: names, or {job, params, always}; 1 to 1,000 of them.",
        ),
    ),
    words=GROUP_WORDS,
)

RETENTION = Map(
    "RetentionSection",
    "How long rows and output are kept; `forever` is a value.",
    (
        *RETENTION_KEYS.keys.values(),
        Key("output_total", types.kept_size, "How much output all runs keep together, the oldest are deleted first."),
    ),
)

SCHEDULER = Map(
    "SchedulerSection",
    "How the scheduler of this project behaves.",
    (
        Key("concurrency", types.count, "How many runs execute at the same time."),
        Key("tick", types.tick, "The longest time between two checks of the clock, 1s to 1h."),
        Key("timeout", types.timeout, "The timeout of jobs that name none; `never` for none."),
        Key("shutdown_grace", types.grace, "How long running work may continue at shutdown."),
        Key(
            "agent_shutdown_grace",
            types.grace,
            "How long running agents may continue at shutdown; overrides `shutdown_grace`.",
        ),
        Key("enabled", types.flag, "Whether this project's jobs fire and start at all."),
        Key("crash_guard", types.switch, "Whether a scheduler that keeps crashing starts paused."),
        Key(
            "ping_url",
            types.ping_url,
            "An address that the scheduler fetches once a minute while it works: a dead man's switch.",
        ),
        Key(
            "aging",
            types.aging,
            "How much waiting time a step of priority is worth, 1s to 7d; `off`: priority alone counts.",
        ),
        Key(
            "log_format", types.log_format, "The form of log lines: `json`, `text`, or `auto`: JSON without a terminal."
        ),
        Key(
            "keep_awake",
            types.keep_awake,
            "Whether the machine stays awake while runs are in progress: `off`, `on_ac`: on mains power, or `always`.",
        ),
    ),
)

HTTP = Map(
    "HttpSection",
    "How the HTTP API of `rota serve` is reached.",
    (
        Key("listen", types.listen, "Address and port; without a port 7682, or the next free port if it is in use."),
        Key("base_path", types.base_path, "The path under which a proxy serves rota, such as /rota."),
        Key("public_url", types.public_url, "The URL that users open, if it differs."),
        Key("trusted_header", types.header_name, "The header in which a reverse proxy names the person."),
        Key("proxies", types.networks, "The addresses of proxies that may set this header, such as 10.0.0.5/32."),
        Key("proxy_secret", types.named_secret, "{secret: NAME}, which the proxy sends as X-Rota-Proxy-Secret."),
        Key("people", types.people, "The scope of each person: {anna@example.net: admin, ben: run}."),
        Key(
            "oidc",
            types.oidc,
            "An identity provider that logs people in: {issuer: https://id.example.net, client_id: rota}.",
        ),
        Key("others", types.person_scope, "The scope of people that `people` does not name: none, read, run, admin."),
    ),
)

AGENT_POLICY = Map(
    "AgentPolicySection",
    "Limits of the tools for agents; the numbers apply per author.",
    (
        Key("enabled", types.flag, "Whether the tools may create and start jobs."),
        Key("max_active", types.count, "How many active or proposed jobs an author may have."),
        Key("creations_per_hour", types.count, "How many jobs an author may create, and runs it may start, an hour."),
        Key("min_interval", types.duration, "The least time between two starts of such a job."),
        Key("expires_after", types.duration, "How long such a job lasts before it is retired."),
        Key(
            "max_depth",
            types.depth,
            "How deep authors may be nested: with 1 a job of an agent cannot create another one.",
        ),
        Key("approval", types.approval, "Whether such jobs start at once, or wait for `rota approve`."),
        Key("access", types.access, "The highest access of such a job, regardless of its author's."),
    ),
)

POLL = Map(
    "PollSection",
    "The shared poll: one fetch for all jobs that need it.",
    (
        Key("url", types.poll_url, "What is fetched: an address that answers with a JSON object."),
        Key("run", types.function_name, "Or a registered Python function that returns the object."),
        Key("headers", types.poll_headers, "Headers of the request: a text, or {secret: NAME}."),
        Key(
            "interval",
            types.interval,
            "How often, by mode: {active: 15s, idle: 60s, dormant: 300s}; `never` is a value.",
        ),
        Key("timeout", types.duration, "How long one poll may take."),
        Key("budget", types.accounts, "What a poll is charged to, one request each: an account of `budgets`."),
    ),
)

INSTANCES = Map(
    "InstancesEntry",
    "How many runs of an agent execute at once, in the spelling of older files.",
    (Key("max_concurrent", types.count, "How many runs of the agent execute at once."),),
)

AGENT = Map(
    "AgentEntry",
    "One agent: its adapter, and defaults for its jobs.",
    (
        Key(
            "adapter",
            types.adapter,
            "The program: the agent's name by default, if that is an adapter; or {run: module:function}.",
        ),
        Key("model", types.models, "The model, or a list, the preferred first; the program's own default when absent."),
        Key("access", types.access, "What it may do: read, write, or full."),
        Key("args", types.words, "Further long options of its program, such as [--effort, high]."),
        Key("system_prompt", types.text, "A text that is added to its system prompt."),
        Key("add_dirs", types.folders, "Further folders, with the access of its own."),
        Key("mcp_servers", types.mcp_servers, "Further MCP servers, each with the tools that it may call."),
        Key("profile", types.profile, "The named settings of its program, such as a profile of Codex."),
        Key("max_turns", types.count, "How many turns a run may take, where the adapter can keep it."),
        Key("max_usd", types.money, "What one run may cost in dollars, where the adapter can keep it."),
        Key(
            "loop_guard", types.loop_guard, "How often in a row it may make the same tool call, 2 to 1000, or `never`."
        ),
        Key(
            "allowed_tools",
            types.list_of("allowed_tools", types.argument),
            "The tools it may use, where the adapter can keep it.",
        ),
        Key("session", types.session, "Whether its runs start a new session, or continue their job's newest."),
        Key("session_max_age", types.duration, "How old a session gets before a run starts a new one."),
        Key("session_max_turns", types.turns, "How many turns a session has before a run starts a new one."),
        Key("on_quota", types.on_quota, "What follows a rate limit: fail, or continue when the limit is over."),
        Key(
            "workspace",
            types.workspace,
            "Where it works: in the job's folder itself, in a git worktree of its own, or in an empty folder.",
        ),
        Key(
            "account",
            types.login_account,
            "A login of its own, with a provider hold of its own: a name, or {name, dir}.",
        ),
        Key(
            "require_certified",
            types.flag,
            "Whether its runs wait until `rota agents certify` has tried the installed version of its program.",
        ),
        Key("rota_tools", types.flag, "Whether it gets rota's tools, to read jobs and create its own."),
        Key(
            "trust_project",
            types.flag,
            "Whether the program runs hooks, plugins and MCP servers of the folder's own settings.",
        ),
        Key("max_concurrent", types.count, "How many runs of the agent execute at once."),
        Key("instances", types.or_none(_nested(INSTANCES)), "Accepted spelling of `max_concurrent`."),
        Key("working_directory", types.text, "The folder its jobs run in, relative to the project."),
        Key("description", types.note, "A text for people, at most 1,000 characters."),
        Key("options", types.any_map, "Options of the adapter `custom`: argv, prompt, parser, paths."),
        Key("schedules", types.any_map, "Jobs of this agent by name; they are called agent/name."),
    ),
)

PROJECT = Map(
    "ProjectFile",
    "A rota.yaml.",
    (
        Key("timezone", types.zone, "The IANA time zone of all jobs that name none; `local` is this machine's."),
        Key("defaults", _nested(DEFAULTS), "Keys for all jobs; a job's own key wins."),
        Key("scheduler", _nested(SCHEDULER), "Slots, timing and shutdown of this project's scheduler."),
        Key("http", _nested(HTTP), "Where the HTTP API of `rota serve` listens."),
        Key(
            "imports",
            types.list_of("imports", types.module),
            "Python modules whose @rota.job, @rota.condition and @rota.agent are known.",
        ),
        Key("python", types.text, "The Python interpreter for `imports` and functions, relative to the project."),
        Key("pools", types.capacities, "Named capacities that jobs draw on, such as {ollama: 1}; `agents` is 2."),
        Key(
            "budgets",
            types.budgets,
            "Accounts, each a limit per calendar window: {claude-day: {usd: 10, per: day}}; "
            "or what is kept of a subscription: {claude-window: {of: subscription, keep: 30%}}.",
        ),
        Key(
            "prices",
            types.prices,
            "What a million tokens of a model cost in dollars: {sonnet: {input: 3.00, output: 15.00}}.",
        ),
        Key(
            "secrets",
            types.secrets,
            "Where secrets are read at each use: {TOKEN: {command: [op, read, op://…]}}, {file: path}, "
            "{keyring: service/account}.",
        ),
        Key(
            "notify",
            types.targets,
            "Targets of notifications by name: {ops: {on: [failed, recovered], webhook: https://…}}.",
        ),
        Key(
            "include",
            types.list_of("include", types.pattern),
            "Patterns of other files: parts of this project (jobs.d/*.yaml) and other projects' rota.yaml.",
        ),
        Key(
            "quiet_hours",
            types.quiet_hours,
            'When it is quiet: ["00:00-07:00"], or {windows: […], policy: dormant | defer | skip, timezone}.',
        ),
        Key("poll", _nested(POLL), "The shared poll: one fetch for all jobs that need its data (`needs_poll`)."),
        Key("agents", types.any_map, "Agents by name."),
        Key("agent_policy", _nested(AGENT_POLICY), "What agents may create and start with rota's tools."),
        Key("state", types.text, "The state folder, `.rota` when absent; ROTA_STATE wins."),
        Key(
            "store",
            types.store_address,
            "The database: sqlite, in the state folder, or postgresql://user@host/name; ROTA_STORE wins.",
        ),
        Key("jobs", types.any_map, "The jobs by name."),
        Key("groups", types.any_map, "Groups of jobs by name: runs that belong together."),
        Key("retention", _nested(RETENTION), "How long the rows and output of all jobs are kept."),
    ),
    words=TOP_WORDS,
)


_HELD = {
    "": "description enabled finish_by labels ping on_repeated_failure priority retry wake pace",
    "schedule": "timezone anchor first_run jitter except=excluded at start_at end_at run_once quiet_hours=quiet",
    "misfire": "misfire_grace=grace misfire_limit=limit misfire_max_age=max_age",
    "overlap": "queue_depth",
    "gates": "conditions needs_poll expires_after",
    "work": "command shell run=function mode on_failure shell_with params env_pass timeout idle_timeout term_grace "
    "isolate output on_restart postcondition sandbox limits",
    "work.agent": "model args system_prompt add_dirs mcp_servers profile "
    "on_quota max_usd loop_guard allowed_tools answered_by session session_max_age session_max_turns carry "
    "workspace rota_tools trust_project placeholders work_source=source deliver after",
}
"""The keys whose values one field of a JobSpec holds, by its parts: `key`, or `key=field` where the names differ."""
_PARTS = {
    part: {key: field or key for key, _, field in (word.partition("=") for word in words.split())}
    for part, words in _HELD.items()
}
FIELDS = {key: f"{part}.{field}".removeprefix(".") for part, fields in _PARTS.items() for key, field in fields.items()}
"""Keys of jobs and groups, and where a JobSpec holds their values."""


def values_of(part: str, keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the written values of one part of a JobSpec by its fields; a field without one has its default."""
    fields = _PARTS[part]
    return {fields[name]: value for name, value in keys.items() if name in fields}


def misfit(name: str, shape: JobShape) -> KeyRequirement | None:
    """Return the requirement that a job of that shape does not meet, None when the key has an effect."""
    return next((need for need in NEEDS.get(name, ()) if not need.fits(shape)), None)


def read_map(table: Map, raw: Any) -> tuple[dict[str, Any], list[Problem]]:
    """Return the keys that were written and are right, each as its reader makes it, and the problems of the others."""
    if not isinstance(raw, dict):
        return {}, list(wrong_type(raw, "a map of keys").problems)
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, value in raw.items():
        if name not in table.keys:
            problems.append(_unknown(table, name))
            continue
        try:
            values[name] = table.keys[name].value.read(value)
        except BadValue as error:
            problems += [problem.below(name) for problem in error.problems]
            if error.rest is not None:
                values[name] = error.rest
    if len(problems) > 1:
        order: dict[str | int, int] = {name: place for place, name in enumerate(table.keys)}
        problems.sort(key=lambda problem: order.get(problem.at[0], len(order)))
    return values, problems


def _unknown(table: Map, name: str) -> Problem:
    if table is DEFAULTS and name in JOB.keys:
        return Problem("cannot be a default", "unknown_key", at=(name,), hint="write it in the job itself")
    if table is GROUP and name in JOB.keys:
        return Problem("has no effect on a group", "no_effect", at=(name,), hint="write it in the jobs of its members")
    return Problem("unknown key", "unknown_key", at=(name,), hint=unknown_key(name, list(table.keys), table.words))
