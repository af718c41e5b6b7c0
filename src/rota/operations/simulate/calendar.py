"""The calendar: past outcomes by day, and predicted fires from a simulation."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import TypedDict

from msgspec import Struct, field

from rota.model.amounts import counted
from rota.model.clock import from_ms, iso, to_ms
from rota.model.errors import InvalidValue
from rota.model.serialize import iso_or_none
from rota.model.states import Reason, Status
from rota.operations.jobs import has_labels
from rota.operations.simulate.forecast import MOST_DAYS, Project, one_at_a_time, usual_limit
from rota.operations.simulate.model import Accounts, SimJob, SimRun
from rota.operations.simulate.player import SimulationRequest, StartScene, watch
from rota.operations.simulate.state import copy_state
from rota.operations.stats.ranges import HOURS_KEPT, ONE_DAY, StatRange, Step, points
from rota.rules.schedule.plan import PlannedSkip
from rota.rules.schedule.timezone import zone as zone_of
from rota.rules.stats import COMPLETED, DAY, HOUR, LETTERS, Tally, add
from rota.store.driver import Database
from rota.store.tables import jobs, stats
from rota.text.format import full_time
from rota.text.icalendar import CalendarEvent

LONGEST_VIEW = 62
FIRST_YEAR, LAST_YEAR = 1970, 9899
DAYS_NAMED = 140
"""The days of jobs, past and named, that a calendar counts by hour: 20 jobs in a week, fewer in a month."""
DEFERRED = timedelta(seconds=1)
BY_LETTER = {letter: status for status, letter in LETTERS.items()}


class PredictedFire(Struct):
    """An instant that would become a run, or would be skipped; `count` instants of one reason are one."""

    job: str
    job_id: str
    at: datetime
    scheduled_for: datetime
    slot: str
    takes: timedelta
    skipped: Reason | None = None
    count: int = 1

    @property
    def deferred(self) -> bool:
        """Whether quiet hours, jitter or a busy scheduler move it."""
        return self.skipped is None and self.at - self.scheduled_for >= DEFERRED


class FireList:
    """The observer that lists fires."""

    def __init__(self) -> None:
        self.fires: list[PredictedFire] = []
        self._now: datetime | None = None
        self._by_run: dict[str, PredictedFire] = {}

    def look(self, now: datetime) -> None:
        """Set the time of the following events."""
        self._now = now

    def fired(self, run: SimRun) -> None:
        """List an instant that became a run."""
        fire = self._listed(run.sim_job, run.scheduled_for or run.created_at, run.created_at)
        if run.sim_job.is_gated:
            self._by_run[run.id] = fire

    def skipped(self, sim_job: SimJob, row: PlannedSkip) -> None:
        """List instants that do not run."""
        fire = self._listed(sim_job, row.scheduled_for, row.scheduled_for)
        fire.skipped, fire.count = row.reason, row.count or 1

    def _listed(self, sim_job: SimJob, scheduled_for: datetime, at: datetime) -> PredictedFire:
        job = sim_job.job
        slot = f"#{job.fire_number}" if job.spec.schedule.follows_runs else str(to_ms(scheduled_for))
        fire = PredictedFire(job.name, job.id, at, scheduled_for, slot, sim_job.takes)
        self.fires.append(fire)
        return fire

    def ended(self, run: SimRun) -> None:
        """Mark a run that is skipped before it starts."""
        fire = self._by_run.pop(run.id, None)
        if fire is not None and run.status is Status.SKIPPED:
            fire.skipped = run.reason

    def waits(self, run: SimRun) -> None:
        """Ignore a wait."""

    def charged(self, accounts: Accounts) -> None:
        """Ignore the usage of budgets."""

    def mode_changed(self, sim_job: SimJob) -> None:
        """Ignore a mode."""


class Prediction(Struct, frozen=True):
    """The fires up to an instant, which is before `wanted` if the rest is more than one request may simulate."""

    fires: tuple[PredictedFire, ...]
    until: datetime
    wanted: datetime

    @property
    def complete(self) -> bool:
        """Whether all of the time was simulated."""
        return self.until >= self.wanted


def predict(project: Project, until: datetime, *, monotonic: Callable[[], float], now: datetime) -> Prediction:
    """Simulate the stored jobs up to an instant, within the limits of a request."""
    if until <= now:
        return Prediction((), now, now)
    scene = StartScene(project.store.read(partial(copy_state, now=now)), project.scene_settings)
    request, observer = SimulationRequest(min((until - now) / ONE_DAY, MOST_DAYS)), FireList()
    with one_at_a_time():
        reached = watch(scene, request, observer, now=now, limit=usual_limit(monotonic))
    return Prediction(tuple(sorted(observer.fires, key=lambda fire: fire.at)), reached, until)


class JobDay(Struct):
    """A job on a day: its ends, and its predicted fires with the first instants of them."""

    name: str
    ends: Counter[Status] = field(default_factory=Counter)
    fires: int = 0
    deferred: int = 0
    skipped: Counter[Reason] = field(default_factory=Counter)
    times: list[datetime] = field(default_factory=list)


class CalendarDay(Struct, frozen=True):
    """A day of the calendar: what ended on it, the jobs of these ends, and the predicted fires by job."""

    date: date
    begins: datetime
    ends: Counter[Status]
    past: tuple[JobDay, ...]
    others: int
    coming: tuple[JobDay, ...]


class CalendarView(Struct, frozen=True):
    """The days of a time, with the end of what could be predicted."""

    timezone: str
    days: tuple[CalendarDay, ...]
    prediction: Prediction


TIMES = 3


def calendar(
    project: Project, first: date, *, days: int, tz: str, monotonic: Callable[[], float], now: datetime
) -> CalendarView:
    """Return some days of a zone: what ended on the past ones, and what would fire on the coming ones."""
    if not 0 < days <= LONGEST_VIEW:
        raise InvalidValue(f"{days} days are too many for a calendar", hint=f"give 1 to {LONGEST_VIEW}")
    if not FIRST_YEAR <= first.year <= LAST_YEAR:
        raise InvalidValue(f"the calendar has no {first}", hint=f"give a date from {FIRST_YEAR} to {LAST_YEAR}")
    place = zone_of(tz)
    dates = [first + timedelta(days=at) for at in range(days)]
    begins = [datetime(one.year, one.month, one.day, tzinfo=place) for one in (*dates, dates[-1] + ONE_DAY)]
    prediction = predict(project, begins[-1], monotonic=monotonic, now=now)
    past: dict[date, Tally] = {}
    by_job: dict[date, dict[str, JobDay]] = {}
    if begins[0] < now:
        read = partial(_past, since=begins[0], until=min(begins[-1], now), tz=tz, now=now)
        past, by_job = project.store.read(read)
    coming = by_day(prediction.fires, tz)
    return CalendarView(
        tz,
        tuple(
            _day(one, at, past.get(one, {}), by_job.get(one, {}), coming.get(one, {}))
            for one, at in zip(dates, begins[:-1], strict=True)
        ),
        prediction,
    )


def _day(
    one: date, at: datetime, tally: Tally, past: Mapping[str, JobDay], coming: Mapping[str, JobDay]
) -> CalendarDay:
    ends = _ends_of(tally)
    named = sorted(past.values(), key=lambda job: (-job.ends[Status.FAILED], sum(job.ends.values()), job.name))
    others = sum(ends.values()) - sum(sum(job.ends.values()) for job in named)
    later = sorted(coming.values(), key=lambda job: (job.fires + sum(job.skipped.values()), job.times[:1], job.name))
    return CalendarDay(one, at, ends, tuple(named), max(others, 0), tuple(later))


def by_day(fires: Iterable[PredictedFire], tz: str) -> dict[date, dict[str, JobDay]]:
    """Return predicted fires by day of a zone and by job."""
    place = zone_of(tz)
    found: dict[date, dict[str, JobDay]] = {}
    for fire in fires:
        jobs_of_day = found.setdefault(fire.at.astimezone(place).date(), {})
        job = jobs_of_day.get(fire.job)
        if job is None:
            job = jobs_of_day[fire.job] = JobDay(fire.job)
        if fire.skipped is not None:
            job.skipped[fire.skipped] += fire.count
            continue
        job.fires += 1
        job.deferred += fire.deferred
        if len(job.times) < TIMES:
            job.times.append(fire.at)
    return found


def _past(
    db: Database, *, since: datetime, until: datetime, tz: str, now: datetime
) -> tuple[dict[date, Tally], dict[date, dict[str, JobDay]]]:
    """Return the ends of each day, and those of the jobs with the most failures and the fewest runs."""
    place, exact = zone_of(tz), since >= now - HOURS_KEPT
    stat_range = StatRange("", since, until, Step.DAY, tz)
    days = {
        point.at.astimezone(place if exact else UTC).date(): point.tally
        for point in points(db, None, stat_range, now=now)
    }
    current = {job.id: job.name for job in jobs.all_jobs(db)}
    first, last = to_ms(since) // DAY * DAY, to_ms(until)
    whole: dict[str, Tally] = {}
    for job_id, cells in stats.series_by_job(db, list(current), span=DAY, since=first, until=last).items():
        whole[job_id] = {}
        for tally in cells.values():
            add(whole[job_id], tally)
    most = DAYS_NAMED // max((until - since) // ONE_DAY, 7)
    chosen = sorted(whole, key=lambda job_id: _rank(whole[job_id]))[:most]
    by_job: dict[date, dict[str, JobDay]] = {}
    if exact:
        hours = stats.series_by_job(db, chosen, span=HOUR, since=to_ms(since) // HOUR * HOUR, until=last)
        for job_id, cells in hours.items():
            for at, tally in cells.items():
                _count(by_job, from_ms(at).astimezone(place).date(), current[job_id], tally)
    return days, by_job


def _ends_of(tally: Tally) -> Counter[Status]:
    """Return the ends of a tally by status, without a look at its histograms."""
    found: Counter[Status] = Counter()
    for key, number in tally.items():
        letter, dot, _ = key.partition(".")
        if (dot or key == COMPLETED) and letter in BY_LETTER:
            found[BY_LETTER[letter]] += number
    return found


def _rank(tally: Tally) -> tuple[int, int]:
    ends = _ends_of(tally)
    return -ends[Status.FAILED], ends.total()


def _count(by_job: dict[date, dict[str, JobDay]], day: date, name: str, tally: Tally) -> None:
    ends = _ends_of(tally)
    if ends:
        by_job.setdefault(day, {}).setdefault(name, JobDay(name)).ends.update(ends)


class JobDayJson(TypedDict):
    """A job on a day; `times` are the first predicted instants."""

    job: str
    ended: dict[str, int]
    fires: int
    deferred: int
    skipped: dict[str, int]
    times: list[str]


class CalendarDayJson(TypedDict):
    """A day: what ended on it, and what would fire on it."""

    date: str
    ended: dict[str, int]
    past: list[JobDayJson]
    coming: list[JobDayJson]


class CalendarJson(TypedDict):
    """Days; `predicted_until` is earlier than their end if the rest is more than one request may simulate."""

    timezone: str
    days: list[CalendarDayJson]
    predicted_until: str | None
    complete: bool


def calendar_json(found: CalendarView) -> CalendarJson:
    """Return a calendar as JSON."""
    return {
        "timezone": found.timezone,
        "days": [
            {
                "date": day.date.isoformat(),
                "ended": {status.value: number for status, number in day.ends.items()},
                "past": [_job_json(job) for job in day.past],
                "coming": [_job_json(job) for job in day.coming],
            }
            for day in found.days
        ],
        "predicted_until": iso_or_none(found.prediction.until),
        "complete": found.prediction.complete,
    }


def _job_json(job: JobDay) -> JobDayJson:
    return {
        "job": job.name,
        "ended": {status.value: number for status, number in job.ends.items()},
        "fires": job.fires,
        "deferred": job.deferred,
        "skipped": {reason.value: number for reason, number in job.skipped.items()},
        "times": [iso(at) for at in job.times],
    }


MOST_EVENTS = 1_000
OFTEN = 12
"""A job that fires more often on one of the days is one event of each day."""


class CalendarFeed(Struct, frozen=True):
    """The events of a calendar program, and their description."""

    events: tuple[CalendarEvent, ...]
    about: str


def feed(
    project: Project,
    *,
    days: int,
    names: Sequence[str],
    labels: Sequence[str],
    monotonic: Callable[[], float],
    now: datetime,
) -> CalendarFeed:
    """Return the predicted fires of some days as events; a fire keeps its identifier when its time moves."""
    prediction = predict(project, now + timedelta(days=days), monotonic=monotonic, now=now)
    tz = project.scene_settings.timezone
    stored = {job.id: job for job in project.store.read(jobs.all_jobs)}
    wanted = {job.id for job in stored.values() if (not names or job.name in names) and has_labels(job, labels)}
    place = zone_of(tz)
    grouped: dict[tuple[date, str], list[PredictedFire]] = {}
    for fire in prediction.fires:
        if fire.job_id in wanted:
            grouped.setdefault((fire.at.astimezone(place).date(), fire.job_id), []).append(fire)
    often = {job_id for (_, job_id), fires in grouped.items() if len(fires) > OFTEN}
    events: list[CalendarEvent] = []
    for (day, job_id), fires in grouped.items():
        if len(events) > MOST_EVENTS:
            break
        categories = stored[job_id].spec.labels
        events += (
            _often(day, fires, categories)
            if job_id in often
            else [_event(predicted_fire, categories, tz) for predicted_fire in fires]
        )
    return CalendarFeed(tuple(events[:MOST_EVENTS]), _about(prediction, days, len(events), tz=tz, now=now))


def _about(prediction: Prediction, days: int, events: int, *, tz: str, now: datetime) -> str:
    """Return the description of a feed: its length, or where it is cut."""
    if prediction.complete and events <= MOST_EVENTS:
        return f"Predicted fires of {days} days"
    about = f"Predicted fires, the first {MOST_EVENTS:,}" if events > MOST_EVENTS else "Predicted fires"
    if prediction.complete:
        return about
    until = full_time(prediction.until, tz, now=now)
    return f"{about} until {until}; later ones are more than one request may simulate"


def _event(fire: PredictedFire, categories: Sequence[str], tz: str) -> CalendarEvent:
    skipped = fire.skipped is not None
    several = f", {counted(fire.count, 'instant')}" if fire.count > 1 else ""
    description = f"Scheduled for {full_time(fire.scheduled_for, tz, now=fire.at)}" if fire.deferred else ""
    return CalendarEvent(
        _uid(fire.job_id, fire.slot),
        fire.at,
        f"{fire.job} (skipped: {fire.skipped}{several})" if skipped else fire.job,
        fire.takes,
        description,
        categories,
        cancelled=skipped,
    )


def _often(day: date, fires: Sequence[PredictedFire], categories: Sequence[str]) -> list[CalendarEvent]:
    first, skipped = fires[0], sum(fire.count for fire in fires if fire.skipped is not None)
    ran = sum(fire.skipped is None for fire in fires)
    words = f"{first.job}: {counted(ran, 'fire')}{f', {skipped:,} skipped' if skipped else ''}"
    return [CalendarEvent(_uid(first.job_id, day.isoformat()), day, words, categories=categories)]


def _uid(job_id: str, slot: str) -> str:
    return f"{hashlib.sha256(f'{job_id} {slot}'.encode()).hexdigest()[:32]}@rota"
