"""The shape of rota.yaml: its sections and their keys, with descriptions. Descriptions are product text."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from pydantic import Field

from rota.declare.address_values import (
    BasePath,
    Listen,
    PingUrl,
    PollHeaders,
    PollUrl,
    PublicUrl,
    StoreAddress,
    Targets,
)
from rota.declare.agent_values import AccessWord, AdapterEntry, ApprovalWord, Depth, Money, SessionWord, WorkspaceWord
from rota.declare.job_keys import DefaultsSection, RetentionEntry, Strict
from rota.declare.limit_values import Accounts, Budgets, Capacities, Prices
from rota.declare.values import (
    Aging,
    Argument,
    Count,
    Duration,
    Flag,
    FunctionName,
    Grace,
    Interval,
    KeptSize,
    Module,
    Note,
    Pattern,
    QuietHoursEntry,
    Switch,
    Text,
    Tick,
    Timeout,
    Zone,
)
from rota.model.agents import Access
from rota.model.making import Approval
from rota.model.spec import ByMode, SessionMode, Workspace


class RetentionSection(RetentionEntry):
    """How long rows and output are kept; `forever` is a value."""

    output_total: KeptSize = Field(
        5_000_000_000, description="How much output all runs keep together, oldest go first."
    )


class SchedulerSection(Strict):
    """How the scheduler of this project behaves."""

    concurrency: Count = Field(16, description="How many runs execute at the same time.")
    tick: Tick = Field(timedelta(minutes=1), description="The longest time between two looks at the clock, 1s to 1h.")
    timeout: Timeout = Field(timedelta(minutes=10), description="The timeout of jobs that name none; `never` for none.")
    shutdown_grace: Grace = Field(timedelta(seconds=30), description="How long running work may go on at shutdown.")
    agent_shutdown_grace: Grace = Field(
        timedelta(minutes=10), description="How long running agents may go on at shutdown, in the place of that."
    )
    enabled: Flag = Field(default=True, description="Whether this project's jobs fire and start at all.")
    crash_guard: Switch = Field(default=True, description="Whether a scheduler that keeps crashing starts paused.")
    ping_url: PingUrl = Field(
        None, description="An address that the scheduler fetches once a minute while it works: a dead man's switch."
    )
    aging: Aging = Field(
        None, description="How much waiting time a step of priority is worth, 1s to 7d; `off`: priority alone counts."
    )


class HttpSection(Strict):
    """How the HTTP API of `rota serve` is reached."""

    listen: Listen = Field(
        "127.0.0.1", description="Address and port; without a port 7682, or the next free one where that is in use."
    )
    base_path: BasePath = Field("", description="The path under which a proxy shows rota, such as /rota.")
    public_url: PublicUrl = Field("", description="The address that people use, where it is another one.")


class AgentPolicySection(Strict):
    """What may be made with the tools for agents; the numbers hold for each maker."""

    enabled: Flag = Field(default=True, description="Whether jobs can be made and started with the tools at all.")
    max_active: Count = Field(20, description="How many jobs a maker may have that are active or wait for approval.")
    creations_per_hour: Count = Field(30, description="How many jobs a maker may make, and runs it may start, an hour.")
    min_interval: Duration = Field(timedelta(minutes=5), description="The least time between two starts of such a job.")
    expires_after: Duration = Field(timedelta(days=30), description="How long such a job lasts before it is retired.")
    max_depth: Depth = Field(
        2, description="How deep makers may be nested: 1 forbids that a job that was made makes another one."
    )
    approval: ApprovalWord = Field(
        Approval.NONE, description="Whether such jobs begin at once, or wait for `rota approve`."
    )
    access: AccessWord = Field(Access.FULL, description="The most access that such a job gets, whatever its maker has.")


class PollSection(Strict):
    """The shared poll: one fetch for all jobs that need it."""

    url: PollUrl = Field("", description="What is fetched: an address that answers with a JSON object.")
    run: FunctionName = Field("", description="Or a registered Python function that returns the object.")
    headers: PollHeaders = Field(default_factory=dict, description="Headers of the request: a text, or {secret: NAME}.")
    interval: Interval = Field(
        ByMode(timedelta(seconds=15), timedelta(seconds=60), timedelta(seconds=300)),
        description="How often, by mode: {active: 15s, idle: 60s, dormant: 300s}; `never` is a value.",
    )
    timeout: Duration = Field(timedelta(seconds=30), description="How long one poll may take.")
    budget: Accounts = Field(
        default_factory=dict, description="What a poll is charged to, one request each: an account of `budgets`."
    )


class InstancesEntry(Strict):
    """How many runs of an agent go on at once, as document 003 writes it."""

    max_concurrent: Count = Field(1, description="How many runs of the agent go on at once.")


class AgentEntry(Strict):
    """One agent: its adapter, and what its jobs get when they say nothing else."""

    adapter: AdapterEntry = Field(
        "",
        description="Which program it is, the agent's own name where that is an adapter's; or {run: module:function}.",
    )
    model: Argument = Field("", description="The model; the program's own default when absent.")
    access: AccessWord = Field(Access.READ, description="What it may do: read, write, or full.")
    max_turns: Count = Field(10, description="How many turns a run may take, where the adapter can keep it.")
    max_usd: Money = Field(None, description="What one run may cost in dollars, where the adapter can keep it.")
    allowed_tools: list[Argument] = Field(
        default_factory=list, description="The tools it may use, where the adapter can keep it."
    )
    session: SessionWord = Field(
        SessionMode.FRESH,
        description="Whether its runs begin a session of their own, or go on with their job's newest.",
    )
    workspace: WorkspaceWord = Field(
        Workspace.PROJECT,
        description="Where it works: in the job's folder itself, in a git worktree of its own, or in an empty folder.",
    )
    rota_tools: Flag = Field(
        default=False, description="Whether it gets rota's own tools, to look at jobs and make its own."
    )
    trust_project: Flag = Field(
        default=False,
        description="Whether the program runs hooks, plugins and MCP servers of the folder's own settings.",
    )
    max_concurrent: Count = Field(1, description="How many runs of the agent go on at once.")
    instances: InstancesEntry | None = Field(None, description="Accepted spelling of `max_concurrent`.")
    working_directory: Text = Field(".", description="The folder its jobs run in, relative to the project.")
    description: Note = Field("", description="A text for people, at most 1,000 characters.")
    options: dict[str, Any] = Field(
        default_factory=dict, description="What the adapter `custom` is told: argv, prompt, parser, paths."
    )
    schedules: dict[str, Any] = Field(
        default_factory=dict, description="Jobs of this agent by name; they are called agent/name."
    )


class ProjectFile(Strict):
    """A rota.yaml."""

    timezone: Zone = Field(
        "UTC", description="The IANA time zone of all jobs that name none; `local` is this machine's."
    )
    defaults: DefaultsSection = Field(
        DefaultsSection.model_construct(), description="Keys for all jobs; a job's own key wins."
    )
    scheduler: SchedulerSection = Field(
        SchedulerSection.model_construct(), description="Slots, timing and shutdown of this project's scheduler."
    )
    http: HttpSection = Field(HttpSection.model_construct(), description="Where the HTTP API of `rota serve` listens.")
    imports: list[Module] = Field(
        default_factory=list, description="Python modules whose @rota.job, @rota.condition and @rota.agent are known."
    )
    python: Text = Field("", description="The Python interpreter for `imports` and functions, relative to the project.")
    pools: Capacities = Field(
        default_factory=dict, description="Named capacities that jobs draw on, such as {ollama: 1}; `agents` is 2."
    )
    budgets: Budgets = Field(
        default_factory=dict,
        description="Accounts, each a limit per calendar window: {claude-day: {usd: 10, per: day}}.",
    )
    prices: Prices = Field(
        default_factory=dict,
        description="What a million tokens of a model cost in dollars: {sonnet: {input: 3.00, output: 15.00}}.",
    )
    notify: Targets = Field(
        default_factory=dict,
        description="Who is told of runs, by name: {ops: {on: [failed, recovered], webhook: https://…}}.",
    )
    include: list[Pattern] = Field(
        default_factory=list,
        description="Patterns of other files: parts of this project (jobs.d/*.yaml) and other projects' rota.yaml.",
    )
    quiet_hours: QuietHoursEntry = Field(
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
    state: Text = Field("", description="The state folder, `.rota` when absent; ROTA_STATE wins.")
    store: StoreAddress = Field(
        "", description="The database: sqlite, in the state folder, or postgresql://user@host/name; ROTA_STORE wins."
    )
    jobs: Mapping[str, Any] = Field(default_factory=dict, description="The jobs by name.")
    groups: Mapping[str, Any] = Field(
        default_factory=dict, description="Groups of jobs by name: runs that belong together."
    )
    retention: RetentionSection = Field(
        RetentionSection.model_construct(), description="How long the rows and output of all jobs are kept."
    )
