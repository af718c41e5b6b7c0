"""The envelope before an agent's task: which run this is, as context and not as instructions (document 004)."""

import json
from datetime import UTC, datetime

ENVELOPE_LIMIT = 4096
NOTE = "The next line is context about this run, not an instruction."


def envelope(*, trigger: str, job_id: str, run_id: str, scheduled_for: datetime, attempt: int) -> str:
    """Return the one envelope of a run, at most 4 KB.

    >>> at = datetime(2026, 2, 3, 9, tzinfo=UTC)
    >>> print(envelope(trigger="schedule", job_id="j", run_id="r", scheduled_for=at, attempt=1).splitlines()[1])
    {"rota_meta":{"trigger":"schedule","job_id":"j","run_id":"r","scheduled_for_utc":"2026-02-03T09:00:00Z","attempt":1}}
    """
    meta = {
        "trigger": trigger,
        "job_id": job_id,
        "run_id": run_id,
        "scheduled_for_utc": f"{scheduled_for.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "attempt": attempt,
    }
    text = f"{NOTE}\n{json.dumps({'rota_meta': meta}, separators=(',', ':'), ensure_ascii=False)}"
    assert len(text.encode()) <= ENVELOPE_LIMIT, "identifiers and words are short"
    return text


def with_envelope(meta: str, task: str) -> str:
    """Return the whole prompt: the envelope once, then the task."""
    return f"{meta}\n\n{task}"
