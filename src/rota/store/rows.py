"""Rows to records and back."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from rota.model.clock import MILLISECOND, from_ms, from_ms_or_none
from rota.model.proposals import Provenance
from rota.model.records import Execution, Job, Run
from rota.model.serialize import decode, encode
from rota.model.spec import JobSpec, Mode
from rota.model.states import Reason, Status, Trigger, WaitingFor

Record = Mapping[str, Any]
EMPTY = "{}"


_encoder = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def write_json(value: Any) -> str:
    """Return the one JSON text of a value: sorted, without blanks."""
    return _encoder.encode(value) if value != {} else EMPTY


def read_object(text: str) -> dict[str, Any]:
    """Return the JSON object of a stored text."""
    value: dict[str, Any] = {} if text == EMPTY else json.loads(text)
    return value


def merge_objects(known: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with what was told put over it: objects inside are merged, null takes a key away (RFC 7396)."""
    merged = dict(known)
    for key, value in told.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            under = merged.get(key)
            merged[key] = merge_objects(under if isinstance(under, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged


def write_spec(spec: JobSpec) -> str:
    """Return a job's definition as it is stored."""
    return write_json(encode(spec))


@lru_cache(maxsize=4096)
def read_spec(text: str) -> JobSpec:
    """Return the definition of a stored text."""
    return decode(JobSpec, json.loads(text))


def job_of(row: Record) -> Job:
    """Return the job of a row of `job` joined with its version's spec."""
    return Job(
        id=row["id"],
        name=row["name"],
        source=row["source"],
        version=row["version"],
        spec=read_spec(row["spec"]),
        created_at=from_ms(row["created_at"]),
        updated_at=from_ms(row["updated_at"]),
        enabled=bool(row["enabled"]),
        retired_at=from_ms_or_none(row["retired_at"]),
        used_up_at=from_ms_or_none(row["used_up_at"]),
        next_for=from_ms_or_none(row["next_for"]),
        next_at=from_ms_or_none(row["next_at"]),
        anchored_at=from_ms_or_none(row["anchored_at"]),
        fire_number=row["fire_number"],
        run_number=row["run_number"],
        ledger_from=from_ms(row["ledger_from"]),
        paused_at=from_ms_or_none(row["paused_at"]),
        paused_until=from_ms_or_none(row["paused_until"]),
        pause_reason=row["pause_reason"],
        held_for=from_ms_or_none(row["held_for"]),
        failures=row["failures"],
        backing_off_until=from_ms_or_none(row["backing_off_until"]),
        mode=None if row["mode"] is None else Mode(row["mode"]),
        suggested=None if row["suggested"] is None else row["suggested"] * MILLISECOND,
        booted=row["booted"],
        made=_made(row),
        provisional_at=from_ms_or_none(row["provisional_at"]),
        approved=row["approved"],
    )


def _made(row: Record) -> Provenance | None:
    if row["made_by"] is None:
        return None
    return Provenance(
        by=row["made_by"],
        at=from_ms(row["made_at"]),
        run_id=row["made_by_run"],
        depth=row["depth"],
        expires_at=from_ms_or_none(row["expires_at"]),
    )


def run_of(row: Record) -> Run:
    """Return the run of a row of `run` joined with its job's name and what its execution left."""
    return Run(
        id=row["id"],
        job_id=row["job_id"],
        job=row["job"],
        number=row["number"],
        version=row["version"],
        trigger=Trigger(row["trigger"]),
        status=Status(row["status"]),
        reason=None if row["reason"] is None else Reason(row["reason"]),
        waiting_for=None if row["waiting_for"] is None else WaitingFor(row["waiting_for"]),
        not_before=from_ms_or_none(row["not_before"]),
        scheduled_for=from_ms_or_none(row["scheduled_for"]),
        covers_to=from_ms_or_none(row["covers_to"]),
        count=row["count"],
        lane_id=row["lane_id"],
        priority=row["priority"],
        rank=row["rank"],
        position=row["position"],
        params=read_object(row["params"]),
        attempt=row["attempt"],
        retry_of=row["retry_of"],
        chain_id=row["chain_id"],
        group_id=row["group_id"],
        place=row["place"],
        always=bool(row["always"]),
        created_at=from_ms(row["created_at"]),
        first_dispatched_at=from_ms_or_none(row["first_dispatched_at"]),
        started_at=from_ms_or_none(row["started_at"]),
        finished_at=from_ms_or_none(row["finished_at"]),
        expires_at=from_ms_or_none(row["expires_at"]),
        cancel_requested_at=from_ms_or_none(row["cancel_requested_at"]),
        worker_id=row["worker_id"],
        slot=row["slot"],
        epoch=row["epoch"],
        losses=row["losses"],
        forced=bool(row["forced"]),
        exit_code=row["exit_code"],
        error=row["error"],
        result_summary=row["result_summary"],
        predecessor_id=row["predecessor_id"],
        decisions=read_object(row["decisions"]),
        usage=read_object(row["usage"] or EMPTY),
        denied_tools=tuple(json.loads(row["denied_tools"] or "[]")),
        session_id=row["session_id"],
    )


def execution_of(row: Record) -> Execution:
    """Return the execution of a row."""
    return Execution(
        id=row["id"],
        run_id=row["run_id"],
        job_id=row["job_id"],
        version=row["version"],
        lane_id=row["lane_id"],
        params=json.loads(row["params"] or "{}"),
        caller=row["caller"],
        worker_id=row["worker_id"],
        slot=row["slot"],
        epoch=row["epoch"],
        boot_id=row["boot_id"],
        pid=row["pid"],
        pid_start=row["pid_start"],
        started_at=from_ms(row["started_at"]),
        finished_at=from_ms_or_none(row["finished_at"]),
        status=None if row["status"] is None else Status(row["status"]),
        exit_code=row["exit_code"],
        error=row["error"],
        artifacts=json.loads(row["artifacts"] or "{}"),
    )
