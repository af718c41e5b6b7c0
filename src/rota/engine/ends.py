"""What the end of a run has to do with others, as far as its claim says."""

from collections.abc import Iterable, Sequence

from rota.engine.claim import Claimed
from rota.engine.execute import Carried
from rota.model.records import Outcome
from rota.model.spec import Kind
from rota.model.states import Trigger
from rota.rules.outcome import ends_alone


def one_of_each_kind(ended: Sequence[Carried | None]) -> Iterable[Carried | None]:
    """Return one of each job and door: what their ends have to do with others is the same for all of them."""
    kinds: dict[tuple[int, Trigger | None], Carried | None] = {}
    for carried in ended:
        claimed = None if carried is None else carried.claimed
        kinds[(id(carried), None) if claimed is None else (id(claimed.spec), claimed.run.trigger)] = carried
    return kinds.values()


def carried_alone(carried: Carried | None, outcome: Outcome) -> bool:
    """Tell whether an end concerns nobody else; of a run that another process claimed, too little is known."""
    claimed = None if carried is None else carried.claimed
    return claimed is not None and ends_alone(outcome, claimed.spec, claimed.run.trigger)


def notifies(claimed: Claimed) -> bool:
    """Tell whether somebody may be told of the end of a run, or of that of its group."""
    return claimed.spec.notifies or claimed.run.trigger in (Trigger.GROUP, Trigger.RETRY)


def is_activity(claimed: Claimed) -> bool:
    """Tell whether the end of a run may count as activity."""
    return claimed.spec.work.agent is not None


def moves_fires(claimed: Claimed) -> bool:
    """Tell whether the end of a run may move an instant: of its job, of its group, or of who waited for a poll."""
    alone = claimed.run.trigger in (Trigger.MANUAL, Trigger.DIRECT) and claimed.spec.work.kind is not Kind.POLL
    return not alone or not claimed.spec.schedule.manual
