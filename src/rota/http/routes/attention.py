"""What needs somebody: the list, and keeping parts of it quiet until something new happens."""

from starlette.responses import Response

from rota.http import schemas, wishes
from rota.http.context import Desk, DeskOf
from rota.http.routing import Routes, answer, page
from rota.operations.access import Scope
from rota.operations.attention import Need, need_json
from rota.operations.health import look_at_health
from rota.operations.jobs import project_timezone
from rota.operations.needs import acknowledge, chosen_among, point_out
from rota.operations.system import needs_of

routes = Routes("attention")


@routes.on("GET", "/attention", scope=Scope.READ, answer=schemas.NeedPage)
def get_attention(desk: DeskOf) -> Response:
    """List what needs somebody, the worst first; `acknowledged` tells who has seen it, with nothing new since."""
    return answer(page([need_json(need) for need in _needs(desk)], following=None))


@routes.on("POST", "/attention/acknowledge", scope=Scope.RUN, answer=schemas.Acknowledged)
def acknowledge_needs(desk: DeskOf, wish: wishes.AcknowledgeWish) -> Response:
    """Keep things quiet until something new happens to them."""
    needs = _needs(desk)
    chosen = [need for need in chosen_among(needs, wish.names, everything=wish.all) if need.seen is None]
    if not wish.dry_run:
        chosen = list(acknowledge(desk.store, chosen, needs=needs, actor=desk.actor, now=desk.now))
    return answer({"items": [need_json(need) for need in chosen], "dry_run": wish.dry_run})


@routes.on("POST", "/attention/show", scope=Scope.RUN, answer=schemas.Acknowledged)
def show_needs(desk: DeskOf, wish: wishes.AcknowledgeWish) -> Response:
    """Show things again that were acknowledged."""
    chosen = [need for need in chosen_among(_needs(desk), wish.names, everything=wish.all) if need.seen]
    if not wish.dry_run:
        point_out(desk.store, [need.attention.topic for need in chosen])
    return answer({"items": [need_json(need) for need in chosen], "dry_run": wish.dry_run})


def _needs(desk: Desk) -> tuple[Need, ...]:
    beat = look_at_health(desk.store, desk.state, now=desk.now).heartbeat
    return needs_of(desk.store, beat=beat, zone=project_timezone(desk.store), now=desk.now)
