"""Sessions and summaries of agents: stored with the end of a run, given to the next (section 8)."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from rota.declare.readers.agents import draws_of
from rota.engine.transactions.claim import Claimed
from rota.model.agents import AgentSession, Brief
from rota.model.budgets import Usage
from rota.model.clock import to_ms
from rota.model.errors import SessionUnusable
from rota.model.questions import Door
from rota.model.records import Outcome
from rota.model.spec import AgentWork, Carry, JobSpec, OnQuota, Retry, SessionMode
from rota.model.states import Reason, Status, Trigger
from rota.operations.agents.sessions import Forked, fork_run, reset_session
from rota.store.tables import work_items
from rota.testing.doubles import FakeClock, Script, ScriptedProcesses
from rota.testing.scene import Scene
from tests.engine.agent_jobs import agent
from tests.engine.test_holds import put

pytestmark = pytest.mark.anyio

DONE = Outcome(Status.COMPLETED, exit_code=0)


class Seeing(ScriptedProcesses):
    """Processes that note what each run was given."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.briefs: list[Brief] = []

    async def prepare(self, claimed: Claimed) -> Claimed:
        session = claimed.brief.session  # its beginning is that of the scene
        self.briefs.append(replace(claimed.brief, session=session and replace(session, began_ms=0)))
        return await super().prepare(claimed)


@pytest.fixture
async def seeing(scene: Scene) -> Seeing:
    await scene.crash()
    processes = Seeing(scene.clock)
    scene.processes = processes
    await scene.start()
    return processes


async def run(scene: Scene, ending: Outcome = DONE, *, job: str = "talk") -> None:
    scene.processes.scripts[job] = Script(ending=ending)
    scene.trigger(job)
    await scene.settle()


def talking(**keys: Any) -> Any:
    return agent("talk", session=SessionMode.RESUME, **keys)


def said(session: str, usd: float = 0.0, *, adapter: str = "claude", **more: Any) -> Outcome:
    return replace(DONE, session=AgentSession(session, usd=usd, tokens_in=7, adapter=adapter), **more)


async def test_the_next_run_gets_the_session_of_the_last_with_its_totals(scene: Scene, seeing: Seeing) -> None:
    scene.declare(talking())
    await run(scene, said("s-1", 0.25))
    await run(scene, said("s-2", 0.5))
    await run(scene)
    assert [brief.session for brief in seeing.briefs] == [
        None,
        AgentSession("s-1", usd=0.25, tokens_in=7, adapter="claude"),
        AgentSession("s-2", usd=0.5, tokens_in=7, adapter="claude"),
    ]
    assert scene.history("talk")[-1].decisions["session"] == "s-2"


async def test_a_job_that_does_not_resume_gets_none(scene: Scene, seeing: Seeing) -> None:
    scene.declare(agent("talk"))
    await run(scene, said("s-1"))
    await run(scene)
    assert [brief.session for brief in seeing.briefs] == [None, None]


async def test_a_run_that_failed_in_its_session_leaves_it_to_the_next(scene: Scene, seeing: Seeing) -> None:
    scene.declare(talking())
    await run(scene, said("s-1", status=Status.FAILED, reason=Reason.AGENT_ERROR, error="max_turns"))
    await run(scene)
    assert [brief.session.id for brief in seeing.briefs if brief.session] == ["s-1"]


async def test_a_session_that_was_lost_is_not_tried_again(scene: Scene, seeing: Seeing) -> None:
    scene.declare(talking())
    await run(scene, said("s-1"))
    await run(scene, Outcome(Status.FAILED, Reason.AGENT_ERROR, error="gone", session_lost="s-1"))
    await run(scene)
    assert [brief.session.id if brief.session else None for brief in seeing.briefs] == [None, "s-1", None]


async def test_a_newer_session_survives_the_loss_of_an_older_one(scene: Scene, seeing: Seeing) -> None:
    scene.declare(talking())
    await run(scene, said("s-2"))
    await run(scene, Outcome(Status.FAILED, Reason.AGENT_ERROR, error="gone", session_lost="s-1"))
    await run(scene)
    assert seeing.briefs[-1].session is not None


async def test_another_program_does_not_get_the_session_of_the_one_before(scene: Scene, seeing: Seeing) -> None:
    scene.declare(talking(adapter="codex"))
    await run(scene, said("s-1", adapter="claude"))
    await run(scene)
    assert [brief.session for brief in seeing.briefs] == [None, None]


async def test_a_session_is_stored_with_the_end_of_its_run_also_after_a_crash(scene: Scene, seeing: Seeing) -> None:
    """R-23: whoever records the run stores it."""
    scene.declare(talking())
    seeing.scripts["talk"] = Script(takes=scene.settings.scheduler.tick, ending=said("s-1"))
    scene.trigger("talk")
    await scene.settle()
    await scene.crash()
    assert await scene.start() == 1
    await scene.advance("2m")
    await run(scene)
    assert [brief.session.id if brief.session else None for brief in seeing.briefs] == [None, "s-1"]


async def test_a_run_is_given_the_summary_of_the_last_run_that_was_completed(scene: Scene, seeing: Seeing) -> None:
    scene.declare(agent("talk", carry=(Carry.LAST_SUMMARY,)))
    await run(scene, replace(DONE, summary="first"))
    await run(scene, Outcome(Status.FAILED, Reason.AGENT_ERROR, error="no"))
    await run(scene, replace(DONE, summary="third"))
    await run(scene)
    assert [brief.last_summary for brief in seeing.briefs] == [None, "first", "first", "third"]


def test_a_job_begins_without_memory() -> None:
    work = AgentWork("claude", "claude", "anthropic")
    assert (work.session, work.carry) == (SessionMode.FRESH, ())


def refused(session: str | None = "s-1", **more: Any) -> Outcome:
    used = Usage(tokens_in=5, usd=250_000)
    ended = Outcome(Status.FAILED, Reason.QUOTA, provider="anthropic", session_id=session, usage=used, error="no")
    return replace(ended, **more)


def continuing() -> JobSpec:
    spec = agent("talk", on_quota=OnQuota.CONTINUE)
    assert spec.work.agent is not None
    return replace(spec, pools=draws_of(spec.work.agent, ()))


async def test_a_refused_run_continues_its_session_when_the_hold_ends(scene: Scene, seeing: Seeing) -> None:
    put(scene, continuing())
    await run(scene, refused(resets_at=scene.clock.now() + timedelta(hours=1)))
    assert scene.told("talk") == [("FAILED", "quota"), ("QUEUED", None)]
    await scene.advance("59m")
    assert scene.told("talk")[1] == ("QUEUED", None)
    scene.processes.scripts["talk"] = Script(ending=DONE)
    await scene.advance("2m")
    assert scene.told("talk") == [("FAILED", "quota"), ("COMPLETED", None)]
    first, second = seeing.briefs
    assert (first.session, first.continues) == (None, None)
    assert second.session == AgentSession("s-1", usd=0.25, tokens_in=5, adapter="claude", turns=1)
    assert second.continues == {}
    later = scene.history("talk")[1]
    assert (later.retry_of, later.trigger) == (scene.history("talk")[0].id, Trigger.RETRY)


async def test_a_continuation_that_is_refused_too_adds_up_what_the_session_used(scene: Scene, seeing: Seeing) -> None:
    put(scene, continuing())
    now = scene.clock.now()
    await run(scene, refused(resets_at=now + timedelta(hours=1)))
    scene.processes.scripts["talk"] = Script(ending=refused(resets_at=now + timedelta(hours=2)))
    await scene.advance("61m")
    scene.processes.scripts["talk"] = Script(ending=DONE)
    await scene.advance("61m")
    assert [brief.session and brief.session.usd for brief in seeing.briefs] == [None, 0.25, 0.5]
    assert scene.told("talk")[-1] == ("COMPLETED", None)


async def test_a_refusal_before_the_session_began_starts_the_task_again(scene: Scene, seeing: Seeing) -> None:
    put(scene, continuing())
    await run(scene, refused(None, resets_at=scene.clock.now() + timedelta(hours=1)))
    scene.processes.scripts["talk"] = Script(ending=DONE)
    await scene.advance("61m")
    assert [(brief.session, brief.continues) for brief in seeing.briefs] == [(None, None)] * 2


async def test_another_failure_is_not_continued(scene: Scene, seeing: Seeing) -> None:
    put(scene, continuing())
    await run(scene, refused(reason=Reason.AUTH))
    assert scene.told("talk") == [("FAILED", "auth")]


async def test_a_continuation_survives_a_kill_of_the_scheduler(scene: Scene, seeing: Seeing) -> None:
    put(scene, continuing())
    await run(scene, refused(resets_at=scene.clock.now() + timedelta(hours=1)))
    await scene.crash()
    scene.processes = again = Seeing(scene.clock)
    await scene.start()
    await scene.advance("61m")
    assert scene.told("talk") == [("FAILED", "quota"), ("COMPLETED", None)]
    assert [brief.session and brief.session.id for brief in again.briefs] == ["s-1"]


# forks


def in_session(session: str, usd: float = 0.5, *, adapter: str = "claude", of_job: bool = True) -> Outcome:
    """Return the end of a run in a session; `of_job`: the session is that of the job from now on."""
    totals = AgentSession(session, usd=usd, adapter=adapter) if of_job else None
    return replace(DONE, session_id=session, session=totals)


def fork(scene: Scene, handle: str, prompt: str = "Now add a test.", **more: Any) -> Forked:
    state = scene.settings.state
    return fork_run(
        scene.store, handle, prompt, state=state, by="user:ada", door=Door.CLI, now=scene.clock.now(), **more
    )


async def test_a_fork_gets_the_session_and_the_new_prompt_and_stands_apart(scene: Scene, seeing: Seeing) -> None:
    scene.declare(agent("talk", session=SessionMode.RESUME))
    await run(scene, in_session("s-1"))
    scene.processes.scripts["talk"] = Script(ending=in_session("s-2", of_job=False))
    fork(scene, "talk:1")
    await scene.settle()
    brief = seeing.briefs[-1]
    assert (brief.session, brief.reply, brief.apart) == (
        AgentSession("s-1", usd=0.5, adapter="claude"),
        "Now add a test.",
        True,
    )
    forked = scene.history("talk")[-1]
    assert (forked.trigger, forked.status, forked.decisions["session"]) == (Trigger.FORK, Status.COMPLETED, "s-1")
    await run(scene, in_session("s-1"))
    assert seeing.briefs[-1].session == AgentSession("s-1", usd=0.5, adapter="claude")


async def test_where_the_program_makes_no_copy_the_session_of_the_job_goes_on(scene: Scene, seeing: Seeing) -> None:
    scene.declare(agent("talk", session=SessionMode.RESUME, agent="gemini", adapter="gemini", provider="google"))
    await run(scene, in_session("s-1", adapter="gemini"))
    await run(scene, in_session("s-2", adapter="gemini"))
    fork(scene, "talk:2")
    await scene.settle()
    fork(scene, "talk:1")
    await scene.settle()
    assert [(brief.session and brief.session.id, brief.apart) for brief in seeing.briefs] == [
        (None, False),
        ("s-1", False),
        ("s-2", False),
        ("s-1", True),
    ]


async def test_a_retry_of_a_fork_has_its_prompt_and_its_session(scene: Scene, seeing: Seeing) -> None:
    scene.declare(replace(agent("talk"), retry=Retry(max_attempts=2, backoff=timedelta(seconds=1))))
    await run(scene, replace(DONE, session_id="s-1"))
    scene.processes.scripts["talk"] = Script(ending=Outcome(Status.FAILED, Reason.AGENT_ERROR, error="no"))
    fork(scene, "talk:1")
    await scene.settle()
    await scene.advance(timedelta(minutes=1))
    assert scene.history("talk")[-1].trigger is Trigger.RETRY
    again = seeing.briefs[-1]
    assert (again.session and again.session.id, again.reply, again.apart) == ("s-1", "Now add a test.", True)


async def test_a_session_ends_after_its_turns(scene: Scene, seeing: Seeing) -> None:
    scene.declare(talking(session_max_turns=5))
    for session, turns in (("s-1", 4), ("s-1", 5), ("s-2", 1)):
        ending = replace(DONE, session=AgentSession(session, adapter="claude", turns=turns))
        await run(scene, ending)
    await run(scene)
    assert [brief.session and brief.session.id for brief in seeing.briefs] == [None, "s-1", None, "s-2"]
    over = scene.history("talk")[2].decisions["session_over"]
    assert over == "it has 5 turns, the limit is 5"


async def test_a_session_ends_at_its_age_and_its_runs_keep_its_beginning(scene: Scene, seeing: Seeing) -> None:
    scene.declare(talking(session_max_age=timedelta(hours=3)))
    for _ in range(4):
        stored = scene.store.read(work_items.sessions)
        began = to_ms(stored[0].began_at) if stored and len(seeing.briefs) < 3 else 0
        await run(scene, replace(DONE, session=AgentSession("s-1", adapter="claude", turns=1, began_ms=began)))
        await scene.advance("1h")
    assert [brief.session is None for brief in seeing.briefs] == [True, False, False, True]


async def test_a_reset_starts_a_new_session_and_a_job_without_one_says_so(scene: Scene, seeing: Seeing) -> None:
    scene.declare(talking())
    await run(scene, said("s-1"))
    assert reset_session(scene.store, "talk", now=scene.clock.now(), dry_run=True).session == "s-1"
    assert reset_session(scene.store, "talk", now=scene.clock.now()).run == "talk:1"
    await run(scene)
    assert [brief.session for brief in seeing.briefs] == [None, None]
    with pytest.raises(SessionUnusable, match="has no session to continue"):
        reset_session(scene.store, "talk", now=scene.clock.now())
