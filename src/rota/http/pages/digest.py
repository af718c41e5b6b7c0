"""The page of the digest."""

from datetime import timedelta
from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from rota.http.pages.page import Pages, VisitOf
from rota.operations.status.digest import look_at_digest
from rota.text import messages

pages = Pages()
SPANS = {"last": None, "12h": timedelta(hours=12), "1d": timedelta(days=1), "7d": timedelta(days=7)}


@pages.show("/ui/digest")
def show_digest(visit: VisitOf, since: Annotated[str, Query(max_length=10)] = "last") -> Response:
    """Show what happened since the last digest, or within a span."""
    span = SPANS.get(since)
    begin = None if span is None else visit.now - span
    beat = visit.health.heartbeat
    digest = look_at_digest(visit.ctx.store, beat=beat, since=begin, zone=visit.zone, now=visit.now)
    view = {
        "digest": digest,
        "title": messages.title({**digest, "event": "digest"}),
        "say_counts": lambda one: messages.say_counts({**one, "job": 0}),
        "chosen": since if since in SPANS else "last",
        "spans": tuple(SPANS),
    }
    return visit.show("digest.html", view, title="Digest", section="overview")
