"""What the triggers of the schema refuse, whichever database says so."""

from rota.model.errors import InvariantRefused

INVARIANTS = {
    "INV-001": "the params of a run are frozen from its first dispatch on",
    "INV-002": "an execution changes once, when it ends",
    "INV-005": "a run keeps its identity and the version of its job",
    "INV-006": "a group ends when all of its members have, and then never changes",
    "a finished run never changes": "it is final",
    "no such transition": "the run cannot go from its status to that one",
}


def refused(message: str) -> InvariantRefused | None:
    """Return what a trigger refused, None where the message is of another constraint."""
    rule = next((rule for rule in INVARIANTS if rule in message), None)
    return None if rule is None else InvariantRefused(rule, INVARIANTS[rule])
