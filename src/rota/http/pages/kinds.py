"""The words by which styles tell runs apart; without templates, so that who only names them loads none."""

from rota.model.records import Run
from rota.model.states import Reason
from rota.operations.words import shown_status


def kind_of(run: Run) -> str:
    """Return the word that styles use for how a run stands: its status, or `missed`, or `partial`."""
    return "missed" if run.reason is Reason.MISSED else shown_status(run).lower()
