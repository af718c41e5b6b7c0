"""The keys of a job, of a group and of `defaults:`, with their descriptions. Descriptions are product text."""

from datetime import timedelta
from functools import cache

from pydantic import BaseModel, ConfigDict, Field

from rota.declare.address_values import Notify
from rota.declare.agent_values import (
    AccessWord,
    AfterEntry,
    Carried,
    Money,
    Prompt,
    SessionWord,
    WorkSourceEntry,
    WorkspaceWord,
)
from rota.declare.limit_values import Accounts, Draws, Estimates, RepeatedFailurePolicy, RetryPolicy
from rota.declare.values import (
    AnchorWord,
    Argument,
    Argv,
    Count,
    Cron,
    Duration,
    Env,
    EnvName,
    Exceptions,
    FirstRunWord,
    Flag,
    FunctionName,
    Gate,
    Grace,
    GroupModeWord,
    Instant,
    Interval,
    IsolateWord,
    JitterValue,
    Kept,
    KeptCount,
    Labels,
    Members,
    MisfireWord,
    ModeInterval,
    Note,
    OnFailureWord,
    OnRestartWord,
    OptionalDuration,
    OutputWord,
    OverlapWord,
    OwnQuietHours,
    Params,
    PollGroup,
    PollGroupWord,
    Priority,
    Seconds,
    Text,
    TimeOfDay,
    Timeout,
    TypeWord,
    WhenFalseWord,
    WorkType,
    Zone,
)
from rota.model.agents import Access
from rota.model.spec import (
    Anchor,
    FirstRun,
    GroupMode,
    Isolate,
    Jitter,
    MisfirePolicy,
    OnFailure,
    OnRestart,
    OutputPolicy,
    OverlapPolicy,
    Retry,
    SessionMode,
    WhenFalse,
    Workspace,
)


class Strict(BaseModel):
    """A map in the file that knows its keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


@cache
def keys_of(model: type[BaseModel]) -> dict[str, str]:
    """Return the keys of a map as users write them, each with the attribute that holds it."""
    return {field.alias or name: name for name, field in model.model_fields.items()}


class RetentionEntry(Strict):
    """How long a job's rows and output are kept; `forever` is a value."""

    runs: Kept = Field(timedelta(days=365), description="How long rows of executed runs are kept.")
    skipped: Kept = Field(timedelta(days=30), description="How long rows of skipped instants are kept.")
    skipped_count: KeptCount = Field(10_000, description="How many rows of skipped instants a job keeps at most.")
    output: Kept = Field(timedelta(days=30), description="How long the output of a run is kept.")


class PolicyKeys(Strict):
    """Keys that a job, a group and `defaults:` have in common."""

    timezone: Zone = Field("UTC", description="The IANA time zone of the job's times; the file's own when absent.")
    anchor: AnchorWord = Field(
        Anchor.COMPLETION,
        description="What an interval counts from: the end of a run, its start, or a fixed grid.",
    )
    first_run: FirstRunWord = Field(
        FirstRun.NOW, description="When a new interval job runs first: as soon as it is applied, or an interval later."
    )
    jitter: JitterValue = Field(
        Jitter(), description="A delay chosen by hash: up to 50% of the gap to the next instant, or up to a duration."
    )
    misfire: MisfireWord = Field(
        MisfirePolicy.SKIP,
        description="What happens to instants noticed too late: skip, run the latest once, or run all.",
    )
    misfire_grace: Duration = Field(
        timedelta(seconds=60), description="How late an instant may be noticed and still count as on time."
    )
    misfire_limit: Count = Field(10, description="How many missed instants `misfire: all` runs, the newest.")
    misfire_max_age: OptionalDuration = Field(
        None, description="How late a missed instant may still start under `misfire: once` or `all`."
    )
    overlap: OverlapWord = Field(
        OverlapPolicy.FORBID,
        description="What happens when the job is due while a run is unfinished: skip, wait, replace it, or start.",
    )
    overlap_policy: OverlapWord = Field(OverlapPolicy.FORBID, description="Accepted spelling of `overlap`.")
    queue_depth: Count = Field(1, description="How many runs may wait behind the running one under `overlap: queue`.")
    on_repeated_failure: RepeatedFailurePolicy = Field(
        None,
        description="When a job that keeps failing is held back: {after: 5, backoff_max: 1d}, true for that, or false.",
    )
    except_: Exceptions = Field(
        default_factory=dict,
        alias="except",
        description="Dates without runs: [2026-12-25, 12-24 (every year), holidays.ics]; [] for none.",
    )
    notify: Notify = Field(
        None,
        description="Who is told of its runs: targets of `notify` by name, or {on: [failed], webhook: …}; or `none`.",
    )
    labels: Labels = Field((), description="Words to filter by: a list, or a map that becomes key=value.")
    enabled: Flag = Field(default=True, description="Whether the job fires and can be started.")
    description: Note = Field("", description="A text for people, at most 1,000 characters.")
    retention: RetentionEntry = Field(
        RetentionEntry.model_construct(), description="How long this job's rows and output are kept."
    )


class ScheduleKeys(Strict):
    """When a job or a group is due."""

    cron: Cron = Field((), description="When: five cron fields in quotes, a list of such texts, or @reboot.")
    interval: Interval = Field(
        None,
        description="When: a duration between runs, counted from `anchor`; or by mode {active: 15s, dormant: never}.",
    )
    interval_active: ModeInterval = Field(None, description="Accepted spelling of `interval: {active: …}`.")
    interval_idle: ModeInterval = Field(None, description="Accepted spelling of `interval: {idle: …}`.")
    interval_dormant: ModeInterval = Field(None, description="Accepted spelling of `interval: {dormant: …}`.")
    at: Instant = Field("", description="When: one point in time, in the job's zone or with an offset.")
    start_at: Instant = Field("", description="No instant before this one.")
    end_at: Instant = Field("", description="No instant at or after this one.")
    run_once: Flag = Field(default=False, description="Whether the job is disabled after its first run.")
    finish_by: TimeOfDay = Field(
        "", description="The time of the day by which a scheduled run must have finished, else `late` is told."
    )
    quiet_hours: OwnQuietHours = Field(
        None, description="The job's own quiet hours in place of the file's, or `ignore`."
    )


class SharedKeys(PolicyKeys):
    """Keys that a job and `defaults:` have in common."""

    shell_with: Argv = Field(
        ("/bin/sh", "-e", "-c"), description="The program and arguments that get a shell job's text as their last one."
    )
    python: Text = Field(
        "", description="Another Python interpreter for functions, relative to the project; they then run as processes."
    )
    params: Params = Field(
        default_factory=dict,
        description="Named values for the run: ROTA_PARAM_NAME, placeholders, `ctx.params`; at most 64 KB as JSON.",
    )
    env: Env = Field(
        default_factory=dict, description="Environment variables: a text, a number, true or false, or {secret: NAME}."
    )
    env_pass: list[EnvName] = Field(
        default_factory=list, description="Variables of the scheduler's own environment that the job gets too."
    )
    env_file: Text = Field("", description="A file of NAME=value lines, relative to the project, read at each start.")
    cwd: Text = Field(".", description="The folder the work runs in, relative to the project; `~` is the home folder.")
    working_directory: Text = Field(".", description="Accepted spelling of `cwd`.")
    timeout: Timeout = Field(
        timedelta(minutes=10), description="How long a run may take; `never` for no limit; else `scheduler.timeout`."
    )
    timeout_seconds: Seconds = Field(600, description="Accepted spelling of `timeout`, in whole seconds.")
    term_grace: Grace = Field(
        timedelta(seconds=10), description="How long a stopped run has between TERM and KILL; 0 kills at once."
    )
    isolate: IsolateWord = Field(
        Isolate.THREAD, description="Where a function runs: in the scheduler, or in a process that can be killed."
    )
    output: OutputWord = Field(
        OutputPolicy.FULL,
        description="How much output is kept: first and last part, also for other machines, only the last, or nothing.",
    )
    on_restart: OnRestartWord = Field(
        OnRestart.ADOPT,
        description="What a new scheduler does with a run that survived the old one: go on, or kill it.",
    )
    conditions: list[Gate] = Field(
        default_factory=list,
        description="Gates that must all pass: registered names, or {command: …} that exits 0 (true) or 10 (false).",
    )
    when_false: WhenFalseWord = Field(
        WhenFalse.SKIP, description="What a false condition does: the run waits (interval jobs) or is skipped (others)."
    )
    recheck: Duration = Field(
        timedelta(seconds=60), description="How often a waiting run's conditions are looked at again."
    )
    needs_poll: Flag = Field(
        default=False, description="Whether a run waits for the shared poll and gets its data (`ctx.poll_data`)."
    )
    expires_after: OptionalDuration = Field(
        None, description="How long a run may wait in the queue before it is skipped as expired."
    )
    retry: RetryPolicy = Field(
        Retry(),
        description="How often a failed run is tried again, and after how long: "
        "{max_attempts: 3, backoff: 10s, factor: 2, max: 10m, jitter: 20%}, or false.",
    )
    retry_policy: RetryPolicy = Field(Retry(), description="Accepted spelling of `retry`.")
    pools: Draws = Field(
        default_factory=dict,
        description="What a run draws on while it runs: [ollama], or with a cost {gpu: 2}; [] for nothing.",
    )
    budget: Accounts = Field(
        default_factory=dict, description="What a run is charged to: an account of `budgets`, or a list; [] for none."
    )
    estimate: Estimates = Field(
        default_factory=dict,
        description="What a run is expected to cost, in the account's unit: a number, or one for each account.",
    )
    priority: Priority = Field(0, description="Higher goes first in the queue, -1000 to 1000.")
    agent: Text = Field("", description="Who does a prompt: an entry of `agents`, or the name of an adapter.")
    provider: Text = Field("", description="Accepted from older tools: anthropic, openai or google, for the agent.")
    model: Argument = Field("", description="The model that the agent uses; its own default when absent.")
    access: AccessWord = Field(
        Access.READ, description="What the agent may do: read, write, or full; each adapter translates it."
    )
    max_turns: Count = Field(10, description="How many turns the agent may take, where its adapter can keep it.")
    max_usd: Money = Field(None, description="What one run may cost in dollars, where the adapter can keep it.")
    allowed_tools: list[Argument] = Field(
        default_factory=list, description="The tools the agent may use, where its adapter can keep it."
    )
    session: SessionWord = Field(
        SessionMode.FRESH, description="Whether a run begins a session of its own, or goes on with the job's newest."
    )
    carry: Carried = Field(
        (), description="What a run is told of earlier ones: last_summary, state, or a list of them; [] for nothing."
    )
    workspace: WorkspaceWord = Field(
        Workspace.PROJECT,
        description="Where the agent works: in `cwd` itself, in a git worktree of its own, or in an empty folder.",
    )
    rota_tools: Flag = Field(
        default=False, description="Whether the agent gets rota's own tools, to look at jobs and make its own."
    )
    trust_project: Flag = Field(
        default=False,
        description="Whether the program runs hooks, plugins and MCP servers of the folder's own settings.",
    )
    placeholders: Flag = Field(
        default=True,
        description="Whether placeholders in the prompt are filled; with false the agent gets it as it is written.",
    )
    work_source: WorkSourceEntry = Field(
        None,
        description="Where a run gets its item: {github: owner/name, token: {secret: NAME}}, {directory: path}, "
        "{http: url} or {run: module:Class}.",
    )
    after: AfterEntry = Field(
        None,
        description="A step once the agent has succeeded: {command: […], cwd: workspace | project}, or {shell: …}.",
    )


class DefaultsSection(SharedKeys):
    """Keys for all jobs; a job's own key wins, `env` and `labels` are merged."""


class JobEntry(SharedKeys, ScheduleKeys):
    """One job: one kind of work, at most one schedule, and its policies."""

    command: Argv = Field((), description="Work: a program and its arguments, as a list or a plain text without shell.")
    shell: Text = Field("", description="Work: a text for the shell.")
    prompt: Prompt = Field("", description="Work: a task for an agent.")
    prompt_file: Text = Field("", description="Work: a file with a task for an agent, relative to the project.")
    task: Prompt = Field("", description="Accepted spelling of `prompt`.")
    run: FunctionName = Field("", description="Work: a registered Python function, or module:function.")
    group: PollGroupWord = Field(
        PollGroup.LOCAL, description="Accepted from older files: `remote` is `needs_poll: true`, `local` is false."
    )
    type: TypeWord = Field(
        WorkType.COMMAND, description="Accepted from older files; must agree with the work: `script` is `run`."
    )


class GroupEntry(PolicyKeys, ScheduleKeys):
    """One group: runs of jobs that belong together, at most one schedule, and its policies."""

    mode: GroupModeWord = Field(
        GroupMode.SEQUENTIAL, description="Whether the members run one after another, or side by side."
    )
    on_failure: OnFailureWord = Field(
        OnFailure.STOP,
        description="What a member that failed or was cancelled does: stop those that have not started, or nothing.",
    )
    members: Members = Field(
        default_factory=dict,
        description="The jobs that run, in order: names, or {job, params, always}; 1 to 1,000 of them.",
    )
