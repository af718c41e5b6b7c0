"""The keys of a job and of each section, and how a map of keys is read."""

from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rota.declare import types
from rota.declare.problems import GROUP_WORDS, JOB_WORDS, TOP_WORDS, BadValue, shown, unknown_key, wrong_type
from rota.model import spec
from rota.model.agents import Access
from rota.model.errors import KeyPath, Problem
from rota.model.proposals import Approval


class Strict(BaseModel):
    """A map in the file that knows its keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


@cache
def keys_of(model: type[BaseModel]) -> dict[str, str]:
    """Return the keys of a map as users write them, each with the attribute that holds it."""
    return {field.alias or name: name for name, field in model.model_fields.items()}


class RetentionEntry(Strict):
    """How long a job's rows and output are kept; `forever` is a value."""

    runs: types.Kept = Field(timedelta(days=365), description="How long rows of executed runs are kept.")
    skipped: types.Kept = Field(timedelta(days=30), description="How long rows of skipped instants are kept.")
    skipped_count: types.KeptCount = Field(10_000, description="How many rows of skipped instants a job keeps at most.")
    output: types.Kept = Field(timedelta(days=30), description="How long the output of a run is kept.")


class PolicyKeys(Strict):
    """Keys that a job, a group and `defaults:` have in common."""

    timezone: types.Zone = Field(
        "UTC", description="The IANA time zone of the job's times; the file's own when absent."
    )
    anchor: types.AnchorWord = Field(
        spec.Anchor.COMPLETION,
        description="What an interval counts from: the end of a run, its start, or a fixed grid.",
    )
    first_run: types.FirstRunWord = Field(
        spec.FirstRun.NOW,
        description="When a new interval job runs first: as soon as it is applied, or an interval later.",
    )
    jitter: types.JitterValue = Field(
        spec.Jitter(),
        description="A delay chosen by hash: up to 50% of the gap to the next instant, or up to a duration.",
    )
    misfire: types.MisfireWord = Field(
        spec.MisfirePolicy.SKIP,
        description="What happens to instants noticed too late: skip, run the latest once, or run all.",
    )
    misfire_grace: types.Duration = Field(
        timedelta(seconds=60), description="How late an instant may be noticed and still count as on time."
    )
    misfire_limit: types.Count = Field(10, description="How many missed instants `misfire: all` runs, the newest.")
    misfire_max_age: types.OptionalDuration = Field(
        None, description="How late a missed instant may still start under `misfire: once` or `all`."
    )
    overlap: types.OverlapWord = Field(
        spec.OverlapPolicy.FORBID,
        description="What happens when the job is due while a run is unfinished: skip, wait, replace it, or start.",
    )
    overlap_policy: types.OverlapWord = Field(spec.OverlapPolicy.FORBID, description="Accepted spelling of `overlap`.")
    queue_depth: types.Count = Field(
        1, description="How many runs may wait behind the running one under `overlap: queue`."
    )
    on_repeated_failure: types.RepeatedFailurePolicy = Field(
        None,
        description="When a job that keeps failing is held back: {after: 5, backoff_max: 1d}, true for that, or false.",
    )
    except_: types.Exceptions = Field(
        default_factory=dict,
        alias="except",
        description="Dates without runs: [2026-12-25, 12-24 (every year), holidays.ics]; [] for none.",
    )
    notify: types.Notify = Field(
        None,
        description="Who is told of its runs: targets of `notify` by name, or {on: [failed], webhook: …}; or `none`.",
    )
    labels: types.Labels = Field((), description="Words to filter by: a list, or a map that becomes key=value.")
    enabled: types.Flag = Field(default=True, description="Whether the job fires and can be started.")
    description: types.Note = Field("", description="A text for people, at most 1,000 characters.")
    retention: RetentionEntry = Field(
        RetentionEntry.model_construct(), description="How long this job's rows and output are kept."
    )


class ScheduleKeys(Strict):
    """When a job or a group is due."""

    cron: types.Cron = Field((), description="When: five cron fields in quotes, a list of such texts, or @reboot.")
    interval: types.Interval = Field(
        None,
        description="When: a duration between runs, counted from `anchor`; or by mode {active: 15s, dormant: never}.",
    )
    interval_active: types.ModeInterval = Field(None, description="Accepted spelling of `interval: {active: …}`.")
    interval_idle: types.ModeInterval = Field(None, description="Accepted spelling of `interval: {idle: …}`.")
    interval_dormant: types.ModeInterval = Field(None, description="Accepted spelling of `interval: {dormant: …}`.")
    at: types.Instant = Field("", description="When: one point in time, in the job's zone or with an offset.")
    start_at: types.Instant = Field("", description="No instant before this one.")
    end_at: types.Instant = Field("", description="No instant at or after this one.")
    run_once: types.Flag = Field(default=False, description="Whether the job is disabled after its first run.")
    finish_by: types.TimeOfDay = Field(
        "", description="The time of the day by which a scheduled run must have finished, else `late` is told."
    )
    quiet_hours: types.OwnQuietHours = Field(
        None, description="The job's own quiet hours in place of the file's, or `ignore`."
    )


class SharedKeys(PolicyKeys):
    """Keys that a job and `defaults:` have in common."""

    shell_with: types.Argv = Field(
        ("/bin/sh", "-e", "-c"), description="The program and arguments that get a shell job's text as their last one."
    )
    python: types.Text = Field(
        "", description="Another Python interpreter for functions, relative to the project; they then run as processes."
    )
    params: types.Params = Field(
        default_factory=dict,
        description="Named values for the run: ROTA_PARAM_NAME, placeholders, `ctx.params`; at most 64 KB as JSON.",
    )
    env: types.Env = Field(
        default_factory=dict, description="Environment variables: a text, a number, true or false, or {secret: NAME}."
    )
    env_pass: list[types.EnvName] = Field(
        default_factory=list, description="Variables of the scheduler's own environment that the job gets too."
    )
    env_file: types.Text = Field(
        "", description="A file of NAME=value lines, relative to the project, read at each start."
    )
    cwd: types.Text = Field(
        ".", description="The folder the work runs in, relative to the project; `~` is the home folder."
    )
    working_directory: types.Text = Field(".", description="Accepted spelling of `cwd`.")
    timeout: types.Timeout = Field(
        timedelta(minutes=10), description="How long a run may take; `never` for no limit; else `scheduler.timeout`."
    )
    timeout_seconds: types.Seconds = Field(600, description="Accepted spelling of `timeout`, in whole seconds.")
    term_grace: types.Grace = Field(
        timedelta(seconds=10), description="How long a stopped run has between TERM and KILL; 0 kills at once."
    )
    isolate: types.IsolateWord = Field(
        spec.Isolate.THREAD, description="Where a function runs: in the scheduler, or in a process that can be killed."
    )
    output: types.OutputWord = Field(
        spec.OutputPolicy.FULL,
        description="How much output is kept: first and last part, also for other machines, only the last, or nothing.",
    )
    on_restart: types.OnRestartWord = Field(
        spec.OnRestart.ADOPT,
        description="What a new scheduler does with a run that survived the old one: go on, or kill it.",
    )
    conditions: list[types.Gate] = Field(
        default_factory=list,
        description="Gates that must all pass: registered names, or {command: …} that exits 0 (true) or 10 (false).",
    )
    when_false: types.WhenFalseWord = Field(
        spec.WhenFalse.SKIP,
        description="What a false condition does: the run waits (interval jobs) or is skipped (others).",
    )
    recheck: types.Duration = Field(
        timedelta(seconds=60), description="How often a waiting run's conditions are looked at again."
    )
    needs_poll: types.Flag = Field(
        default=False, description="Whether a run waits for the shared poll and gets its data (`ctx.poll_data`)."
    )
    expires_after: types.OptionalDuration = Field(
        None, description="How long a run may wait in the queue before it is skipped as expired."
    )
    retry: types.RetryPolicy = Field(
        spec.Retry(),
        description="How often a failed run is tried again, and after how long: "
        "{max_attempts: 3, backoff: 10s, factor: 2, max: 10m, jitter: 20%}, or false.",
    )
    retry_policy: types.RetryPolicy = Field(spec.Retry(), description="Accepted spelling of `retry`.")
    pools: types.Draws = Field(
        default_factory=dict,
        description="What a run draws on while it runs: [ollama], or with a cost {gpu: 2}; [] for nothing.",
    )
    budget: types.Accounts = Field(
        default_factory=dict, description="What a run is charged to: an account of `budgets`, or a list; [] for none."
    )
    estimate: types.Estimates = Field(
        default_factory=dict,
        description="What a run is expected to cost, in the account's unit: a number, or one for each account.",
    )
    priority: types.Priority = Field(0, description="Higher goes first in the queue, -1000 to 1000.")
    agent: types.Text = Field("", description="Who does a prompt: an entry of `agents`, or the name of an adapter.")
    provider: types.Text = Field(
        "", description="Accepted from older tools: anthropic, openai or google, for the agent."
    )
    model: types.Argument = Field("", description="The model that the agent uses; its own default when absent.")
    access: types.AccessWord = Field(
        Access.READ, description="What the agent may do: read, write, or full; each adapter translates it."
    )
    max_turns: types.Count = Field(10, description="How many turns the agent may take, where its adapter can keep it.")
    max_usd: types.Money = Field(None, description="What one run may cost in dollars, where the adapter can keep it.")
    allowed_tools: list[types.Argument] = Field(
        default_factory=list, description="The tools the agent may use, where its adapter can keep it."
    )
    session: types.SessionWord = Field(
        spec.SessionMode.FRESH,
        description="Whether a run begins a session of its own, or goes on with the job's newest.",
    )
    carry: types.Carried = Field(
        (), description="What a run is told of earlier ones: last_summary, state, or a list of them; [] for nothing."
    )
    workspace: types.WorkspaceWord = Field(
        spec.Workspace.PROJECT,
        description="Where the agent works: in `cwd` itself, in a git worktree of its own, or in an empty folder.",
    )
    rota_tools: types.Flag = Field(
        default=False, description="Whether the agent gets rota's own tools, to look at jobs and make its own."
    )
    trust_project: types.Flag = Field(
        default=False,
        description="Whether the program runs hooks, plugins and MCP servers of the folder's own settings.",
    )
    placeholders: types.Flag = Field(
        default=True,
        description="Whether placeholders in the prompt are filled; with false the agent gets it as it is written.",
    )
    work_source: types.WorkSourceEntry = Field(
        None,
        description="Where a run gets its item: {github: owner/name, token: {secret: NAME}}, {directory: path}, "
        "{http: url} or {run: module:Class}.",
    )
    after: types.AfterEntry = Field(
        None,
        description="A step once the agent has succeeded: {command: […], cwd: workspace | project}, or {shell: …}.",
    )


class DefaultsSection(SharedKeys):
    """Keys for all jobs; a job's own key wins, `env` and `labels` are merged."""


class JobEntry(SharedKeys, ScheduleKeys):
    """One job: one kind of work, at most one schedule, and its policies."""

    command: types.Argv = Field(
        (), description="Work: a program and its arguments, as a list or a plain text without shell."
    )
    shell: types.Text = Field("", description="Work: a text for the shell.")
    prompt: types.Prompt = Field("", description="Work: a task for an agent.")
    prompt_file: types.Text = Field("", description="Work: a file with a task for an agent, relative to the project.")
    task: types.Prompt = Field("", description="Accepted spelling of `prompt`.")
    run: types.FunctionName = Field("", description="Work: a registered Python function, or module:function.")
    group: types.PollGroupWord = Field(
        types.PollGroup.LOCAL,
        description="Accepted from older files: `remote` is `needs_poll: true`, `local` is false.",
    )
    type: types.TypeWord = Field(
        types.WorkType.COMMAND, description="Accepted from older files; must agree with the work: `script` is `run`."
    )


class GroupEntry(PolicyKeys, ScheduleKeys):
    """One group: runs of jobs that belong together, at most one schedule, and its policies."""

    mode: types.GroupModeWord = Field(
        spec.GroupMode.SEQUENTIAL, description="Whether the members run one after another, or side by side."
    )
    on_failure: types.OnFailureWord = Field(
        spec.OnFailure.STOP,
        description="What a member that failed or was cancelled does: stop those that have not started, or nothing.",
    )
    members: types.Members = Field(
        default_factory=dict,
        description="The jobs that run, in order: names, or {job, params, always}; 1 to 1,000 of them.",
    )


class RetentionSection(RetentionEntry):
    """How long rows and output are kept; `forever` is a value."""

    output_total: types.KeptSize = Field(
        5_000_000_000, description="How much output all runs keep together, oldest go first."
    )


class SchedulerSection(Strict):
    """How the scheduler of this project behaves."""

    concurrency: types.Count = Field(16, description="How many runs execute at the same time.")
    tick: types.Tick = Field(
        timedelta(minutes=1), description="The longest time between two looks at the clock, 1s to 1h."
    )
    timeout: types.Timeout = Field(
        timedelta(minutes=10), description="The timeout of jobs that name none; `never` for none."
    )
    shutdown_grace: types.Grace = Field(
        timedelta(seconds=30), description="How long running work may go on at shutdown."
    )
    agent_shutdown_grace: types.Grace = Field(
        timedelta(minutes=10), description="How long running agents may go on at shutdown, in the place of that."
    )
    enabled: types.Flag = Field(default=True, description="Whether this project's jobs fire and start at all.")
    crash_guard: types.Switch = Field(
        default=True, description="Whether a scheduler that keeps crashing starts paused."
    )
    ping_url: types.PingUrl = Field(
        None, description="An address that the scheduler fetches once a minute while it works: a dead man's switch."
    )
    aging: types.Aging = Field(
        None, description="How much waiting time a step of priority is worth, 1s to 7d; `off`: priority alone counts."
    )


class HttpSection(Strict):
    """How the HTTP API of `rota serve` is reached."""

    listen: types.Listen = Field(
        "127.0.0.1", description="Address and port; without a port 7682, or the next free one where that is in use."
    )
    base_path: types.BasePath = Field("", description="The path under which a proxy shows rota, such as /rota.")
    public_url: types.PublicUrl = Field("", description="The address that people use, where it is another one.")


class AgentPolicySection(Strict):
    """What may be made with the tools for agents; the numbers hold for each maker."""

    enabled: types.Flag = Field(default=True, description="Whether jobs can be made and started with the tools at all.")
    max_active: types.Count = Field(
        20, description="How many jobs a maker may have that are active or wait for approval."
    )
    creations_per_hour: types.Count = Field(
        30, description="How many jobs a maker may make, and runs it may start, an hour."
    )
    min_interval: types.Duration = Field(
        timedelta(minutes=5), description="The least time between two starts of such a job."
    )
    expires_after: types.Duration = Field(
        timedelta(days=30), description="How long such a job lasts before it is retired."
    )
    max_depth: types.Depth = Field(
        2, description="How deep makers may be nested: 1 forbids that a job that was made makes another one."
    )
    approval: types.ApprovalWord = Field(
        Approval.NONE, description="Whether such jobs begin at once, or wait for `rota approve`."
    )
    access: types.AccessWord = Field(
        Access.FULL, description="The most access that such a job gets, whatever its maker has."
    )


class PollSection(Strict):
    """The shared poll: one fetch for all jobs that need it."""

    url: types.PollUrl = Field("", description="What is fetched: an address that answers with a JSON object.")
    run: types.FunctionName = Field("", description="Or a registered Python function that returns the object.")
    headers: types.PollHeaders = Field(
        default_factory=dict, description="Headers of the request: a text, or {secret: NAME}."
    )
    interval: types.Interval = Field(
        spec.ByMode(timedelta(seconds=15), timedelta(seconds=60), timedelta(seconds=300)),
        description="How often, by mode: {active: 15s, idle: 60s, dormant: 300s}; `never` is a value.",
    )
    timeout: types.Duration = Field(timedelta(seconds=30), description="How long one poll may take.")
    budget: types.Accounts = Field(
        default_factory=dict, description="What a poll is charged to, one request each: an account of `budgets`."
    )


class InstancesEntry(Strict):
    """How many runs of an agent go on at once, as document 003 writes it."""

    max_concurrent: types.Count = Field(1, description="How many runs of the agent go on at once.")


class AgentEntry(Strict):
    """One agent: its adapter, and what its jobs get when they say nothing else."""

    adapter: types.AdapterEntry = Field(
        "",
        description="Which program it is, the agent's own name where that is an adapter's; or {run: module:function}.",
    )
    model: types.Argument = Field("", description="The model; the program's own default when absent.")
    access: types.AccessWord = Field(Access.READ, description="What it may do: read, write, or full.")
    max_turns: types.Count = Field(10, description="How many turns a run may take, where the adapter can keep it.")
    max_usd: types.Money = Field(None, description="What one run may cost in dollars, where the adapter can keep it.")
    allowed_tools: list[types.Argument] = Field(
        default_factory=list, description="The tools it may use, where the adapter can keep it."
    )
    session: types.SessionWord = Field(
        spec.SessionMode.FRESH,
        description="Whether its runs begin a session of their own, or go on with their job's newest.",
    )
    workspace: types.WorkspaceWord = Field(
        spec.Workspace.PROJECT,
        description="Where it works: in the job's folder itself, in a git worktree of its own, or in an empty folder.",
    )
    rota_tools: types.Flag = Field(
        default=False, description="Whether it gets rota's own tools, to look at jobs and make its own."
    )
    trust_project: types.Flag = Field(
        default=False,
        description="Whether the program runs hooks, plugins and MCP servers of the folder's own settings.",
    )
    max_concurrent: types.Count = Field(1, description="How many runs of the agent go on at once.")
    instances: InstancesEntry | None = Field(None, description="Accepted spelling of `max_concurrent`.")
    working_directory: types.Text = Field(".", description="The folder its jobs run in, relative to the project.")
    description: types.Note = Field("", description="A text for people, at most 1,000 characters.")
    options: dict[str, Any] = Field(
        default_factory=dict, description="What the adapter `custom` is told: argv, prompt, parser, paths."
    )
    schedules: dict[str, Any] = Field(
        default_factory=dict, description="Jobs of this agent by name; they are called agent/name."
    )


class ProjectFile(Strict):
    """A rota.yaml."""

    timezone: types.Zone = Field(
        "UTC", description="The IANA time zone of all jobs that name none; `local` is this machine's."
    )
    defaults: DefaultsSection = Field(
        DefaultsSection.model_construct(), description="Keys for all jobs; a job's own key wins."
    )
    scheduler: SchedulerSection = Field(
        SchedulerSection.model_construct(), description="Slots, timing and shutdown of this project's scheduler."
    )
    http: HttpSection = Field(HttpSection.model_construct(), description="Where the HTTP API of `rota serve` listens.")
    imports: list[types.Module] = Field(
        default_factory=list, description="Python modules whose @rota.job, @rota.condition and @rota.agent are known."
    )
    python: types.Text = Field(
        "", description="The Python interpreter for `imports` and functions, relative to the project."
    )
    pools: types.Capacities = Field(
        default_factory=dict, description="Named capacities that jobs draw on, such as {ollama: 1}; `agents` is 2."
    )
    budgets: types.Budgets = Field(
        default_factory=dict,
        description="Accounts, each a limit per calendar window: {claude-day: {usd: 10, per: day}}.",
    )
    prices: types.Prices = Field(
        default_factory=dict,
        description="What a million tokens of a model cost in dollars: {sonnet: {input: 3.00, output: 15.00}}.",
    )
    notify: types.Targets = Field(
        default_factory=dict,
        description="Who is told of runs, by name: {ops: {on: [failed, recovered], webhook: https://…}}.",
    )
    include: list[types.Pattern] = Field(
        default_factory=list,
        description="Patterns of other files: parts of this project (jobs.d/*.yaml) and other projects' rota.yaml.",
    )
    quiet_hours: types.QuietHoursEntry = Field(
        None,
        description='When it is quiet: ["00:00-07:00"], or {windows: […], policy: dormant | defer | skip, timezone}.',
    )
    poll: PollSection = Field(
        PollSection.model_construct(),
        description="The shared poll: one fetch for all jobs that need its data (`needs_poll`).",
    )
    agents: Mapping[str, Any] = Field(default_factory=dict, description="Agents by name.")
    agent_policy: AgentPolicySection = Field(
        AgentPolicySection.model_construct(), description="What agents may make and start with rota's tools."
    )
    state: types.Text = Field("", description="The state folder, `.rota` when absent; ROTA_STATE wins.")
    store: types.StoreAddress = Field(
        "", description="The database: sqlite, in the state folder, or postgresql://user@host/name; ROTA_STORE wins."
    )
    jobs: Mapping[str, Any] = Field(default_factory=dict, description="The jobs by name.")
    groups: Mapping[str, Any] = Field(
        default_factory=dict, description="Groups of jobs by name: runs that belong together."
    )
    retention: RetentionSection = Field(
        RetentionSection.model_construct(), description="How long the rows and output of all jobs are kept."
    )


_WORDS: Mapping[type[BaseModel], dict[str, str]] = {
    JobEntry: JOB_WORDS,
    DefaultsSection: JOB_WORDS,
    GroupEntry: GROUP_WORDS,
    ProjectFile: TOP_WORDS,
}


def read_map(model: type[BaseModel], raw: Any) -> tuple[dict[str, Any], list[Problem]]:
    """Return the keys that were written, read by `model`, and what is wrong with the others."""
    if not isinstance(raw, dict):
        return {}, list(wrong_type(raw, "a map of keys").problems)
    try:
        return _written(model.model_validate(raw), raw), []
    except ValidationError as error:
        findings = error.errors(include_url=False)
    bad = {finding["loc"][0] for finding in findings}
    good = {key: value for key, value in raw.items() if key not in bad}
    problems = [problem for finding in findings for problem in _translated(model, finding)]
    return _written(model.model_validate(good), good) | _rests(findings), problems


def _rests(findings: list[Any]) -> dict[str, Any]:
    """Return what the right parts of wrong values come to, so that they are looked at too."""
    refused = {finding["loc"][0]: _refused(finding) for finding in findings if len(finding["loc"]) == 1}
    return {key: one.rest for key, one in refused.items() if one is not None and one.rest is not None}


def _refused(finding: Any) -> BadValue | None:
    error = finding.get("ctx", {}).get("error")
    return error if isinstance(error, BadValue) else None


def _written(entry: BaseModel, raw: Mapping[str, Any]) -> dict[str, Any]:
    values, names = entry.__dict__, keys_of(type(entry))
    return {key: values[names[key]] for key in raw}


def _translated(model: type[BaseModel], finding: Any) -> list[Problem]:
    path: KeyPath = tuple(part for part in finding["loc"] if part != "[key]")
    if refused := _refused(finding):
        return [problem.below(*path) for problem in refused.problems]
    return [_told_by_pydantic(model, finding, path)]


def _told_by_pydantic(model: type[BaseModel], finding: Any, path: KeyPath) -> Problem:
    if finding["type"] == "extra_forbidden":
        return _unknown(model, path)
    if finding["type"] == "list_type":
        hint = f"write `{path[-1]}: [{finding['input'][:80]}]`" if isinstance(finding["input"], str) else ""
        return wrong_type(finding["input"], "a list", hint=hint).problems[0].below(*path)
    if finding["type"] in ("dict_type", "mapping_type", "model_type", "model_attributes_type"):
        return wrong_type(finding["input"], "a map of keys").problems[0].below(*path)
    return Problem(f"{shown(finding['input'])} cannot be used", "invalid_value", at=path)


def _unknown(model: type[BaseModel], path: KeyPath) -> Problem:
    key = str(path[-1])
    if model is DefaultsSection and len(path) == 1 and key in keys_of(JobEntry):
        return Problem("cannot be a default", "unknown_key", at=path, hint="write it in the job itself")
    if model is GroupEntry and len(path) == 1 and key in keys_of(JobEntry):
        return Problem("has no effect on a group", "no_effect", at=path, hint="write it in the jobs of its members")
    inner = _inner(model, path)
    return Problem(
        "unknown key", "unknown_key", at=path, hint=unknown_key(key, list(keys_of(inner)), _WORDS.get(inner))
    )


def _inner(model: type[BaseModel], path: KeyPath) -> type[BaseModel]:
    for part in path[:-1]:
        kind = model.model_fields[str(part)].annotation if part in model.model_fields else None
        if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
            break
        model = kind
    return model
