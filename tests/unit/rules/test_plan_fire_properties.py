"""Plans against a slow oracle that looks at every instant alone, and the ledger as a partition of the instants."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from scheduled import CREATED, HOUR, MINUTE, SECOND, job

from rota.model.records import Job
from rota.model.spec import (
    Anchor,
    Jitter,
    Misfire,
    MisfirePolicy,
    Overlap,
    OverlapPolicy,
    QuietHours,
    QuietPolicy,
    Schedule,
)
from rota.model.states import Reason, Status, WaitingFor
from rota.rules.admission import ActiveRun, After, Refuse, judge
from rota.rules.schedule.instants import fires_at
from rota.rules.schedule.plan import ExecutionSpan, FireFacts, FirePlan, PlannedRun, plan_fire, planned_id

EXACT = settings(max_examples=200)
LONG = 8 * HOUR

WINDOWS = (
    ("12:30-12:45", 750, 765),
    ("14:00-15:10", 840, 910),
    ("sun 15:10-16:00", 910, 960),
    ("17:00-17:05", 1020, 1025),
)
"""Windows of quiet hours in UTC, and their minutes; the day of the test is a Sunday."""

quiet_hours = st.builds(
    QuietHours,
    windows=st.lists(st.sampled_from([text for text, *_ in WINDOWS]), min_size=1, unique=True).map(tuple),
    policy=st.sampled_from([QuietPolicy.DEFER, QuietPolicy.SKIP, QuietPolicy.DORMANT]),
)
schedules = st.builds(
    Schedule,
    cron=st.sampled_from([(), ("*/5 * * * *",), ("*/7 * * * *", "30 * * * *"), ("0 * * * *",)]),
    timezone=st.sampled_from(["UTC", "Europe/Paris", "Asia/Tokyo"]),
    jitter=st.sampled_from([None, None, Jitter(percent=50), Jitter(up_to=2 * MINUTE)]),
    end_at=st.sampled_from([None, None, None, CREATED + 4 * HOUR]),
    start_at=st.sampled_from([None, None, CREATED + 11 * MINUTE]),
    quiet=st.sampled_from([None, None, None]) | quiet_hours,
    excluded=st.sampled_from([(), (), (), ("2026-11-15",), ("11-16",)]),
).map(lambda schedule: schedule if schedule.cron else replace(schedule, interval=13 * MINUTE, anchor=Anchor.FIXED))
misfires = st.builds(
    Misfire,
    policy=st.sampled_from(MisfirePolicy),
    grace=st.sampled_from([timedelta(0), 60 * SECOND, 20 * MINUTE]),
    limit=st.integers(1, 5),
    max_age=st.sampled_from([None, None, 20 * MINUTE, 2 * HOUR]),
)
overlaps = st.builds(Overlap, policy=st.sampled_from(OverlapPolicy), queue_depth=st.integers(0, 2))
jobs = st.builds(job, schedules, misfire=misfires, overlap=overlaps)
moments = st.integers(0, LONG // SECOND).map(lambda seconds: CREATED + seconds * SECOND)
waits = st.sampled_from([None, WaitingFor.CONDITION])


@st.composite
def facts(draw: st.DrawFn) -> FireFacts:
    borders = draw(st.lists(moments, max_size=6))
    pairs = zip(borders[::2], borders[1::2], strict=False)
    spans = [ExecutionSpan(min(pair), max(pair), f"backup:{n}") for n, pair in enumerate(pairs)]
    if draw(st.booleans()):
        spans.append(ExecutionSpan(draw(moments), None, "backup:20"))
    count = draw(st.integers(0, 2))
    active = [ActiveRun(f"id-{n}", f"backup:{20 + n}", Status.QUEUED, draw(waits)) for n in range(count)]
    return FireFacts(tuple(active), tuple(spans))


def every_instant(stored: Job) -> list[datetime]:
    """All instants of the test's window, by brute force over its minutes."""
    schedule = stored.spec.schedule
    if schedule.cron:
        minutes = (CREATED + n * MINUTE for n in range(LONG // MINUTE + 1))
        found = [at for at in minutes if any(cron_minute(one, at) for one in schedule.cron)]
    else:
        origin = schedule.start_at or CREATED
        found = [origin + n * schedule.interval for n in range(LONG // schedule.interval + 1)]
    start, end = schedule.start_at or CREATED, schedule.end_at or CREATED + LONG + MINUTE
    return [at for at in found if start <= at < end]


def cron_minute(expression: str, at: datetime) -> bool:
    """Whether an expression of this file matches: they name minutes alone, so whole hours of a zone do not matter."""
    minute = expression.split()[0]
    return at.minute % int(minute[2:]) == 0 if minute.startswith("*/") else at.minute == int(minute)


def due_by_brute_force(stored: Job, now: datetime) -> list[datetime]:
    return [at for at in every_instant(stored) if at >= stored.next_for and fires(stored, at) <= now]


def fires(stored: Job, at: datetime) -> datetime:
    if not quiet(stored, at):
        return fires_at(stored.spec.schedule, at, name=stored.name, created_at=stored.created_at)
    minute = at.replace(second=0, microsecond=0)
    return next(end for n in range(1, 300) if not quiet(stored, end := minute + n * MINUTE))


def quiet(stored: Job, at: datetime) -> bool:
    """Whether an instant waits for quiet hours to end, by the minutes of the day in UTC."""
    hours = stored.spec.schedule.quiet
    if hours is None or hours.policy is QuietPolicy.DORMANT:
        return False
    return any(text in hours.windows and first <= 60 * at.hour + at.minute < end for text, first, end in WINDOWS)


def excluded(stored: Job, at: datetime) -> bool:
    ahead = {"UTC": 0, "Europe/Paris": 1, "Asia/Tokyo": 9}[stored.spec.schedule.timezone]
    day = f"{at + ahead * HOUR:%Y-%m-%d}"
    return day in stored.spec.schedule.excluded or day[5:] in stored.spec.schedule.excluded


Fate = tuple[object, ...]


def oracle(stored: Job, known: FireFacts, now: datetime) -> list[tuple[datetime, Fate]]:
    """The fate of each due instant: looked at one by one, nothing counted, nothing searched."""
    misfire = stored.spec.misfire
    due = due_by_brute_force(stored, now)
    hushed = {at: Reason.EXCLUDED if excluded(stored, at) else Reason.QUIET_HOURS for at in due if blackout(stored, at)}
    waiting = [at for at in due if hushed.get(at) is Reason.QUIET_HOURS]
    deferred = waiting[-1:] if waiting and stored.spec.schedule.quiet.policy is QuietPolicy.DEFER else []
    late = [at for at in due if at not in hushed and now - fires(stored, at) > misfire.grace]
    holder = {at: next((span for span in sorted_spans(known) if executing(span, at)), None) for at in late}
    missed = [at for at in late if holder[at] is None]
    young = [at for at in missed if misfire.max_age is None or now - fires(stored, at) <= misfire.max_age]
    wanted = {MisfirePolicy.SKIP: 0, MisfirePolicy.ONCE: 1, MisfirePolicy.ALL: misfire.limit}[misfire.policy]
    punctual = [at for at in due if at not in hushed and at not in late]
    covered = misfire.policy is MisfirePolicy.ONCE and punctual
    made_up = young[-wanted:] if wanted and not covered else []
    fates: list[tuple[datetime, Fate]] = []
    active = list(known.active)
    runs: list[str] = []
    made = False
    for at in due:
        if at in hushed and at not in deferred:
            fates.append((at, ("skip", hushed[at], None)))
            continue
        if at in holder and at not in made_up:
            span = holder[at]
            fates.append((at, ("skip", Reason.OVERLAP, span.handle) if span else ("skip", Reason.MISSED, None)))
            continue
        verdict = After(runs[-1]) if made and at in made_up else judge(stored.spec.overlap, active)
        if isinstance(verdict, Refuse):
            fates.append((at, ("skip", verdict.reason, verdict.blocking.handle)))
            continue
        made = made or at in made_up
        after_previous = isinstance(verdict, After) and verdict.predecessor_id in runs
        fates.append((at, ("run", verdict, at in made_up, after_previous)))
        name = planned_id(str(round(at.timestamp() * 1000)))
        runs.append(name)
        active.append(ActiveRun(name, f"the run of {at:%Y-%m-%dT%H:%M:%SZ}", Status.QUEUED))
    return fates


def blackout(stored: Job, at: datetime) -> bool:
    return excluded(stored, at) or quiet(stored, at)


def executing(span: ExecutionSpan, at: datetime) -> bool:
    return span.start <= at and (span.end is None or at < span.end)


def sorted_spans(known: FireFacts) -> list[ExecutionSpan]:
    return sorted(known.executed, key=lambda span: span.start)


def unfold(stored: Job, found: FirePlan) -> Iterator[tuple[datetime, Fate]]:
    """Each instant that the plan covers, with what the plan says of it."""
    for step in found.steps:
        if isinstance(step, PlannedRun):
            yield step.scheduled_for, ("run", step.verdict, step.made_up, step.after_previous)
            continue
        last = step.covers_to or step.scheduled_for
        covered = [at for at in every_instant(stored) if step.scheduled_for <= at <= last]
        assert step.count == len(covered)
        assert (step.covers_to is None) == (step.count == 1)
        yield from ((at, ("skip", step.reason, step.blocking)) for at in covered)


@EXACT
@given(jobs, facts(), moments)
def test_r10_a_plan_says_of_every_instant_what_a_look_at_it_alone_says(stored, known, now):
    """R-10, and R-17: quiet hours and excluded days judged one by one."""
    if stored.next_for is None:
        return
    found = plan_fire(stored, known, now=now)
    assert list(unfold(stored, found)) == oracle(stored, known, now)


@EXACT
@given(jobs, facts(), moments)
def test_r10_neighbouring_rows_differ_in_reason_or_in_the_run_in_the_way(stored, known, now):
    steps = plan_fire(stored, known, now=now).steps
    for one, other in pairwise(steps):
        if not isinstance(one, PlannedRun) and not isinstance(other, PlannedRun):
            assert (one.reason, one.blocking, one.quiet_until) != (other.reason, other.blocking, other.quiet_until)


@EXACT
@given(jobs, st.lists(st.tuples(st.integers(1, 3 * 3600), facts()), min_size=1, max_size=8))
def test_r05_over_any_rounds_the_rows_cover_every_due_instant_exactly_once(stored, rounds):
    now, covered, keys = CREATED, [], []
    for pause, known in rounds:
        now = min(now + pause * SECOND, CREATED + LONG)
        found = plan_fire(stored, known, now=now)
        covered += [at for at, _ in unfold(stored, found)]
        keys += [step.slot_key for step in found.steps]
        stored = replace(stored, next_for=found.next_for, next_at=found.next_at)
    assert covered == [at for at in every_instant(stored) if fires(stored, at) <= now]
    assert len(set(keys)) == len(keys)
    if stored.next_at is not None:
        assert stored.next_at > now


@EXACT
@given(jobs, facts(), moments)
def test_r07_a_run_once_job_plans_at_most_one_run_and_it_is_the_last_step(stored, known, now):
    once = replace(stored, spec=replace(stored.spec, schedule=replace(stored.spec.schedule, run_once=True)))
    found = plan_fire(once, known, now=now)
    runs = [step for step in found.steps if isinstance(step, PlannedRun)]
    assert len(runs) <= 1
    if runs:
        assert found.steps[-1] is runs[0]
        assert (found.next_for, found.next_at) == (None, None)
    whole = plan_fire(stored, known, now=now).steps
    assert found.steps == whole[: len(found.steps)]
