"""Other machines are told of work that this one has no slot for, and not too often (R-03)."""

import asyncio

from rota.engine.loops.claimer import LEAST_PAUSE, PeerNotifier, announce
from rota.engine.loops.in_flight import Slots
from rota.engine.transactions.claim import ClaimOwner
from rota.model.records import ProcessIdentity

ME = ProcessIdentity("boot", 1, 1)


class Heard:
    """A store that notes what is announced."""

    def __init__(self):
        self.times = 0

    def submit(self, operation):
        assert operation is announce
        self.times += 1
        return asyncio.get_running_loop().create_future()


class Clock:
    def __init__(self):
        self.elapsed = 100.0

    def monotonic(self):
        return self.elapsed


def told(*, leased=True, free=False, pauses=(0.0,)):
    async def play():
        store, clock, slots = Heard(), Clock(), Slots(1)
        if not free:
            slots.take(0, "run")
        neighbours = PeerNotifier(store, clock, holder=ClaimOwner("worker", 1, ME, leased=leased), slots=slots)
        for pause in pauses:
            clock.elapsed += pause
            neighbours.notify()
        return store.times

    return asyncio.run(play())


def test_a_full_machine_tells_the_others():
    assert told() == 1


def test_a_machine_with_a_free_slot_takes_it_itself():
    assert told(free=True) == 0


def test_where_nobody_else_is_nobody_is_told():
    assert told(leased=False) == 0


def test_the_others_are_told_once_in_a_while():
    assert told(pauses=(0.0, LEAST_PAUSE / 2, LEAST_PAUSE / 2)) == 2
