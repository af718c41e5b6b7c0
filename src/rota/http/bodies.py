"""Bodies of requests: bounded, in time, and JSON in the strict sense, so that nothing odd reaches a route."""

import asyncio
import json
from typing import Any, NoReturn
from urllib.parse import parse_qs

from starlette.types import Message, Receive

from rota.http.refusals import BodyLate, BodyTooLarge, FormInvalid, JsonInvalid

LIMIT = 1_000_000
PATIENCE = 20.0
DEEPEST = 50
DIGITS = 300
FIELDS = 500


async def read_body(receive: Receive) -> bytes:
    """Return the whole body; one that is too large or does not end in time is refused."""
    parts: list[bytes] = []
    size, more = 0, True
    try:
        async with asyncio.timeout(PATIENCE):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    break
                part: bytes = message.get("body", b"")
                size, more = size + len(part), message.get("more_body", False)
                if size > LIMIT:
                    raise BodyTooLarge
                parts.append(part)
    except TimeoutError:
        raise BodyLate from None
    return b"".join(parts)


def replayed(body: bytes, receive: Receive) -> Receive:
    """Return a receiver that gives a body which was read already, and then what else comes."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def read_form(body: bytes) -> dict[str, Any]:
    """Return the fields of a form: the first value of each as `form` and `body`, all of them as `forms`."""
    try:
        given = parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=FIELDS, errors="strict")
    except ValueError:
        raise FormInvalid from None
    first = {key: values[0].replace("\r\n", "\n") for key, values in given.items()}
    return {"forms": given, "form": first, "body": first}


def read_json(body: bytes) -> Any:
    """Return the value of a body, or say what about it is no JSON that rota takes."""
    if body.startswith(b"\xef\xbb\xbf"):
        raise JsonInvalid("it starts with a byte order mark")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise JsonInvalid("it is not UTF-8") from None
    _check_depth(text)
    try:
        value = json.loads(
            text, parse_constant=_constant, parse_float=_number, parse_int=_whole, object_pairs_hook=_pairs
        )
    except (ValueError, RecursionError) as error:
        raise JsonInvalid(_short(error)) from None
    return value


def _short(error: Exception) -> str:
    text = str(error)[:120]
    first = text.partition(" ")[0]
    return (text if first.isupper() or not first.istitle() else text[:1].lower() + text[1:]) or "it cannot be read"


def _check_depth(text: str) -> None:
    """Refuse deep nesting before it is parsed; brackets inside texts do not count."""
    depth = deepest = 0
    inside = skip = False
    if text.count("[") + text.count("{") <= DEEPEST:
        return
    for character in text:
        if inside:
            inside, skip = (skip or character != '"'), (not skip and character == "\\")
        elif character == '"':
            inside, skip = True, False
        elif character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    if deepest > DEEPEST:
        raise JsonInvalid(f"it is nested more than {DEEPEST} deep")


def _constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number in JSON")


def _number(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError("it holds a number that is too large")
    return number


def _whole(text: str) -> int:
    if len(text) > DIGITS:
        raise ValueError(f"it holds a number of more than {DIGITS} digits")
    return int(text)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key[:60]!r} is there twice")
        for text in (key, value):
            if isinstance(text, str):
                _check_text(text)
            elif isinstance(text, list):
                _check_list(text)
        found[key] = value
    return found


def _check_list(items: list[Any]) -> None:
    for item in items:
        if isinstance(item, str):
            _check_text(item)
        elif isinstance(item, list):
            _check_list(item)


def _check_text(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("it holds half of a surrogate pair") from None
