"""Budgets, counted anew: what each window says is what its entries say, and nothing is reserved for nobody."""

from rota.operations.auditing.ledger import say
from rota.operations.auditing.report import Check, Findings
from rota.store.driver import Database

MOST = 1_000


def check_budgets(db: Database, findings: Findings) -> None:
    """R-19: settled and reserved are the sums of the entries; what is held belongs to something unfinished."""
    for account, since, settled, counted, reserved, held in db.rows("audit_budgets", limit=MOST):
        window = f"the window of {account} from {say(since)}"
        if settled != counted:
            findings.violation(Check.BUDGET, f"{window} counts {settled} as settled, its runs {counted} (R-19)")
        if reserved != held:
            findings.violation(Check.BUDGET, f"{window} counts {reserved} as reserved, its runs {held} (R-19)")
    for account, run_id, reserved in db.rows("audit_budget_held", limit=MOST):
        what = "a reservation" if reserved else "requests"
        findings.violation(Check.BUDGET, f"{account} holds {what} of {run_id}, which is not under way (R-19)")
