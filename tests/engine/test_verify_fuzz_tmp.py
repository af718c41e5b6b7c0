import random, pytest
from dataclasses import replace
from datetime import timedelta, UTC, datetime
from rota.model.spec import *
from rota.model.states import Status, Reason
from rota.model.records import Outcome
from rota.operations.pausing import Chosen, pause, resume
from rota.testing import Scene, Script
from rota.model.errors import RotaError
from tests.engine.conftest import audit, command, cron, every
from tests.engine.test_apply import put
import os

pytestmark = pytest.mark.anyio


def rs(r):
    z = r.choice(["UTC", "UTC", "Europe/Paris", "America/New_York"])
    j = r.choice([None, None, Jitter(percent=30), Jitter(up_to=timedelta(minutes=2))])
    ro = r.random() < 0.12
    k = r.randrange(6)
    if k < 2:
        s = cron(r.choice(["* * * * *", "*/7 * * * *", "0,30 1-3 * * *", "15 2 * * *", "*/20 * * * *"]), timezone=z)
    elif k == 2:
        s = every(r.choice(["5m", "40m", "1h"]))
    elif k == 3:
        s = replace(every("7m"), anchor=Anchor.START)
    elif k == 4:
        s = replace(every("9m"), anchor=Anchor.FIXED)
    else:
        s = Schedule(at=BASE + timedelta(minutes=r.randint(-60, 3000)))
    s = replace(s, jitter=j, run_once=ro)
    if r.random() < 0.1:
        s = replace(s, end_at=BASE + timedelta(hours=r.randint(1, 60)))
    if r.random() < 0.1:
        s = replace(s, start_at=BASE + timedelta(hours=r.randint(-10, 20)))
    if r.random() < 0.2:
        s = replace(s, first_run=FirstRun.AFTER_INTERVAL)
    return s


def rspec(r, name):
    return command(
        name,
        schedule=rs(r),
        misfire=Misfire(r.choice(list(MisfirePolicy)), limit=r.choice([1, 3, 10])),
        overlap=Overlap(r.choice(list(OverlapPolicy))),
        enabled=r.random() > 0.1,
        gates=Gates(
            conditions=(Condition(name="c"),) if r.random() < 0.3 else (),
            when_false=r.choice(list(WhenFalse)),
            expires_after=r.choice([None, timedelta(minutes=8)]),
        ),
    )


BASE = datetime(2026, 3, 28, 20, 0, tzinfo=UTC)


@pytest.mark.parametrize("seed", range(int(os.environ.get("S0", "0")), int(os.environ.get("S1", "10"))))
async def test_fuzz(tmp_path, seed):
    r = random.Random(seed)
    sc = Scene(tmp_path, BASE + timedelta(seconds=r.choice([0, 0, 13])), concurrency=r.choice([1, 16]))
    await sc.start()
    log = []
    specs = {n: rspec(r, n) for n in "ab"}
    put(sc, *specs.values())
    for s in specs.values():
        log.append(("spec", s.schedule, s.overlap.policy, s.misfire.policy, s.enabled, s.gates))
    try:
        for _ in range(r.randint(5, 25)):
            op = r.choice(
                [
                    "adv",
                    "adv",
                    "adv",
                    "down",
                    "pause",
                    "resume",
                    "edit",
                    "toggle",
                    "trig",
                    "script",
                    "crash",
                    "label",
                    "cond",
                    "retire",
                    "back",
                    "longdown",
                    "all",
                ]
            )
            if op == "back" and not os.environ.get("BACK"):
                op = "adv"
            log.append(op)
            n = r.choice("ab")
            now = sc.clock.now()
            try:
                if op == "adv":
                    d = timedelta(minutes=r.randint(1, 90))
                    log.append((d, sc.clock.now()))
                    await sc.advance(d)
                elif op == "down":
                    await sc.crash()
                    d = timedelta(minutes=r.randint(1, 300))
                    log.append(d)
                    sc.clock.advance(d)
                    await sc.start()
                    await sc.settle()
                elif op == "longdown":
                    await sc.crash()
                    sc.clock.advance(timedelta(days=r.randint(1, 9)))
                    await sc.start()
                    await sc.settle()
                elif op == "crash":
                    await sc.crash()
                    await sc.start()
                elif op == "pause":
                    until = now + timedelta(minutes=r.randint(1, 60)) if r.random() < 0.5 else None
                    log.append((n, until))
                    pause(sc.store, Chosen((n,)), until=until, reason="x", now=now)
                elif op == "all":
                    pause(
                        sc.store,
                        Chosen(everything=True),
                        until=now + timedelta(minutes=r.randint(1, 60)) if r.random() < 0.7 else None,
                        reason="x",
                        now=now,
                    )
                elif op == "resume":
                    ch = Chosen(everything=True) if r.random() < 0.5 else Chosen((n,))
                    cu = r.random() < 0.5
                    log.append((n, ch.everything, cu))
                    resume(sc.store, ch, catch_up=cu, now=now)
                elif op == "edit":
                    specs[n] = rspec(r, n)
                    log.append((n, specs[n].schedule, specs[n].enabled, specs[n].overlap.policy))
                    put(sc, *specs.values())
                elif op == "toggle":
                    specs[n] = replace(specs[n], enabled=not specs[n].enabled)
                    log.append((n, specs[n].enabled))
                    put(sc, *specs.values())
                elif op == "label":
                    specs[n] = replace(specs[n], description=str(r.random()))
                    log.append(n)
                    put(sc, *specs.values())
                elif op == "retire":
                    log.append(n)
                    put(sc, *[s for k, s in specs.items() if k != n])
                    if r.random() < 0.7:
                        await sc.advance("10m")
                    put(sc, *specs.values())
                elif op == "trig":
                    log.append(sc.trigger(n))
                elif op == "script":
                    sc.processes.scripts[n] = Script(
                        takes=timedelta(minutes=r.choice([0, 1, 4, 30])),
                        ending=r.choice(
                            [
                                Outcome(Status.COMPLETED, exit_code=0),
                                Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=1),
                            ]
                        ),
                    )
                    log.append((n, sc.processes.scripts[n].takes))
                elif op == "cond":
                    sc.processes.conditions["c"] = r.choice(["pass", "false", "error"])
                    log.append(sc.processes.conditions["c"])
                elif op == "back":
                    d = timedelta(minutes=r.choice([1, 30, 200]))
                    log.append(d)
                    sc.clock.step(-d)
                    await sc.settle()
            except RotaError as e:
                log.append(repr(e))
            if r.random() < 0.5:
                await sc.settle()
            rep = audit(sc, quick=True)
            if not rep.clean:
                for l in log:
                    print(l)
                for nn in "ab":
                    print(nn, sc.job(nn))
                    print(
                        [
                            (
                                x.handle,
                                x.version,
                                str(x.scheduled_for),
                                str(x.covers_to),
                                x.count,
                                x.status.value,
                                x.reason,
                            )
                            for x in sc.history(nn)
                        ][-8:]
                    )
                    print(
                        sc.store.read(
                            lambda db: [
                                (q[0], q[3:]) for q in db.rows("audit_spans", job_id=db.row("job_by_name", name=nn)[0])
                            ]
                        )
                    )
            assert rep.violations == ()
        await sc.advance("3h")
        assert audit(sc).violations == ()
    except AssertionError:
        raise
    except BaseException:
        for l in log:
            print(l)
        raise
    finally:
        await sc.close()
