"""The shared poll's own work: one GET, or a function's answer, as an Outcome that carries the data (R-16)."""

import inspect
import json
import math
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rota.model.errors import InvalidValue
from rota.model.records import ERROR_LIMIT, Outcome, cut
from rota.model.states import Reason, Status
from rota.rules.retry_after import retry_after
from rota.runners.calling import Function
from rota.runners.context import JobContext
from rota.runners.http import trusted
from rota.runners.result import judge_state, storable

DATA_LIMIT = 1_000_000
SUGGESTED = "suggested_poll_seconds"
"""Where an answer says after how many seconds the next poll should come."""
NOT_NOW = (429, 503)
"""Answers whose Retry-After says when to come again."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered: its data, or what was wrong, and when it wants the next poll."""

    data: Any = None
    error: str | None = None
    reason: Reason = Reason.EXCEPTION
    summary: str = ""
    suggested: float | None = None


def fetcher(url: str, headers: Mapping[str, str]) -> Function:
    """Return the function that polls `url`; how long it may take is its caller's to say."""
    return partial(_fetch, url=url, headers=headers)


async def _fetch(context: JobContext, *, url: str, headers: Mapping[str, str]) -> Answer:
    unfit = next((name for name, value in headers.items() if not (value.isascii() and value.isprintable())), None)
    if unfit is not None:  # told here, since the client would show the value
        return Answer(error=f"GET {url}: the header {unfit} holds characters that cannot be sent")
    context.add_usage(requests=1)
    answer = await _get(url, headers)
    return answer if answer.error is None else replace(answer, error=f"GET {url}: {answer.error}")


async def _get(url: str, headers: Mapping[str, str]) -> Answer:
    import httpx2

    client = httpx2.AsyncClient(timeout=None, verify=trusted())
    try:
        async with client, client.stream("GET", url, headers=headers) as answer:
            body = await _read(answer.aiter_bytes())
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
        return Answer(error=f"{type(error).__name__}: {error}".rstrip(": "))
    told = f"{answer.status_code} {answer.reason_phrase}".strip()
    if answer.has_redirect_location:
        return Answer(error=f"{told}: it has moved to {answer.headers['location']}, which is not followed")
    if not answer.is_success:
        wish = answer.headers.get("retry-after") if answer.status_code in NOT_NOW else None
        return Answer(error=told, suggested=retry_after(wish, date=answer.headers.get("date")))
    return _read_body(body, told)


async def _read(parts: AsyncIterator[bytes]) -> bytes:
    """Return a body up to one byte more than is allowed."""
    body = bytearray()
    async for part in parts:
        body += part
        if len(body) > DATA_LIMIT:
            break
    return bytes(body[: DATA_LIMIT + 1])


def _read_body(body: bytes, told: str) -> Answer:
    if len(body) > DATA_LIMIT:
        error = f"{told}, but its answer is larger than {DATA_LIMIT:,} bytes"
        return Answer(error=error, reason=Reason.RESULT_INVALID)
    try:
        return Answer(json.loads(body), summary=told)
    except (ValueError, RecursionError) as error:
        return Answer(error=f"{told}, but its answer is no JSON: {error}", reason=Reason.RESULT_INVALID)


def read_poll(context: JobContext, value: Any) -> Outcome:
    """Return the outcome of a poll: its data must be a JSON object."""
    if inspect.iscoroutine(value):
        value.close()
        raise TypeError("the function returned a coroutine; declare it with `async def`")
    answer = value if isinstance(value, Answer) else Answer(value)
    written = context.log.total
    data: dict[str, Any] = {}
    state: Mapping[str, Any] | None = None
    try:
        if answer.error is None:
            data, state = judge_data(answer.data), judge_state(context.changed_state)
    except InvalidValue as error:
        answer = replace(answer, error=error.message, reason=Reason.RESULT_INVALID)
    if answer.error is not None:
        text = cut(storable(answer.error), ERROR_LIMIT)
        return Outcome(Status.FAILED, answer.reason, error=text, suggested=answer.suggested, output_bytes=written)
    return Outcome(
        Status.COMPLETED,
        summary=answer.summary or None,
        state=state,
        output_bytes=written,
        poll=data,
        suggested=_seconds(data.get(SUGGESTED)),
    )


def judge_data(value: Any) -> dict[str, Any]:
    """Return what a poll brought as it is stored; InvalidValue says what is wrong with it."""
    if not isinstance(value, Mapping):
        raise InvalidValue(f"a poll brings a JSON object, not {type(value).__name__}")
    try:
        text = json.dumps(dict(value), allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(f"what the poll brought is no JSON: {error}") from None
    if len(text) > DATA_LIMIT:
        raise InvalidValue(f"what the poll brought has {len(text):,} characters, {DATA_LIMIT:,} are allowed")
    data: dict[str, Any] = json.loads(storable(text))
    return data


def _seconds(value: Any) -> float | None:
    """Return a number of seconds that a server asked for, None where it is none."""
    try:
        seconds = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
    except OverflowError:
        return None
    return seconds if math.isfinite(seconds) and seconds > 0 else None
