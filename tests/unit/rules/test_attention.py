"""What changes in the list of items, and which changes people are notified of."""

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from rota.model.attention import Attention, ItemKind, NotedItem
from rota.model.notifications import Event
from rota.rules.attention import (
    REMINDED_AFTER,
    TOGETHER,
    Changes,
    changes_of,
    in_order,
    is_told_by_runs,
    mark_after,
    mark_of,
)

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def item(name: str = "a", *, mark: str = "1", at: datetime = NOON) -> NotedItem:
    return NotedItem(f"failing:{name}", mark, ItemKind.FAILING, name, "FAILED", "rota explain", "", at)


def held(*, mark: str = "1", at: datetime = NOON) -> NotedItem:
    return replace(item(mark=mark, at=at), topic="held:a", kind=ItemKind.HELD)


def noted(*items: NotedItem) -> dict[str, NotedItem]:
    return {one.topic: one for one in items}


def reported(one: NotedItem) -> NotedItem:
    return replace(one, message="m")


def test_a_new_item_is_stored_and_waits_for_others() -> None:
    changes = changes_of({}, [item()], now=NOON)
    assert (changes.stored, changes.new, changes.next_at) == ((item(),), (), NOON + TOGETHER)


def test_items_are_reported_together_after_the_wait_of_the_oldest() -> None:
    second = item("b", at=NOON + SECOND * 20)
    changes = changes_of(noted(item(), second), [item(), second], now=NOON + TOGETHER)
    assert [one.name for one in changes.new] == ["a", "b"]


def test_a_reported_item_changes_nothing() -> None:
    assert changes_of(noted(reported(item())), [item(at=NOON + SECOND)], now=NOON + SECOND) == Changes()


def test_a_new_mark_is_reported_again() -> None:
    again = held(mark="2", at=NOON + SECOND)
    changes = changes_of(noted(reported(held())), [again], now=NOON + SECOND + TOGETHER)
    assert changes.new == (again,)


def test_a_recurring_item_is_reported_again_only_after_a_day() -> None:
    soon = item(mark="2", at=NOON + REMINDED_AFTER - SECOND)
    changes = changes_of(noted(reported(item())), [soon], now=soon.since + TOGETHER)
    assert (changes.stored, changes.new) == ((reported(replace(soon, since=NOON)),), ())
    later = item(mark="3", at=NOON + REMINDED_AFTER)
    assert changes_of(noted(*changes.stored), [later], now=later.since + TOGETHER).new == (later,)


def test_an_item_that_happens_again_and_again_is_reported_after_the_wait_of_the_first() -> None:
    rows: dict[str, NotedItem] = {}
    for count in range(4):
        now = NOON + SECOND * 10 * count
        changes = changes_of(rows, [item(mark=str(count), at=now)], now=now)
        rows |= noted(*changes.stored)
    assert [one.mark for one in changes.new] == ["3"]


def test_a_lower_state_after_a_higher_one_keeps_the_mark() -> None:
    low = Attention("day", "", "", kind=ItemKind.BUDGET, sign="nearly", also=("used up",))
    high = replace(low, sign="used up", also=())
    assert mark_after(low, ["x", mark_of("used up")]) == mark_of("used up")
    assert mark_after(high, [mark_of("nearly")]) == mark_of("used up")


def test_an_item_that_is_away_for_a_moment_is_not_over() -> None:
    gone = changes_of(noted(reported(item())), [], now=NOON)
    assert [one.absent_at for one in gone.stored] == [NOON]
    back = changes_of(noted(*gone.stored), [item(at=NOON + SECOND)], now=NOON + SECOND)
    assert (back.stored, back.over, back.deleted) == ((reported(item()),), (), ())


def test_an_item_that_stays_away_is_over() -> None:
    gone = replace(reported(item()), absent_at=NOON)
    changes = changes_of(noted(gone), [], now=NOON + TOGETHER)
    assert (changes.over, changes.deleted) == ((gone,), ("failing:a",))


def test_an_acknowledged_item_is_deleted_without_a_message() -> None:
    changes = changes_of(noted(reported(held())), [held()], acknowledged={"held:a"}, now=NOON)
    assert (changes.deleted, changes.over, changes.stored) == (("held:a",), (), ())


def test_a_recurring_item_that_is_acknowledged_stays_noted_until_it_is_gone() -> None:
    rows = noted(reported(item()))
    assert changes_of(rows, [item()], acknowledged={"failing:a"}, now=NOON + SECOND) == Changes()
    again = changes_of(rows, [item(mark="2", at=NOON + SECOND)], now=NOON + SECOND + TOGETHER)
    assert (again.new, again.deleted) == ((), ())
    assert changes_of(rows, [], acknowledged={"failing:a"}, now=NOON + SECOND).deleted == ("failing:a",)


def test_a_topic_is_listed_once_and_the_worst_comes_first() -> None:
    held = Attention("x", "held", "rota", kind=ItemKind.HELD)
    damage = Attention("database", "damaged", "rota", kind=ItemKind.DAMAGE)
    assert in_order([held, damage, replace(held, what="twice")]) == [damage, held]


def test_a_mark_depends_on_the_sign_alone() -> None:
    assert mark_of("a") == mark_of("a") != mark_of("b")


def test_only_items_that_runs_report_too_are_left_to_them() -> None:
    assert is_told_by_runs(ItemKind.FAILING, [Event.FAILED])
    assert not is_told_by_runs(ItemKind.FAILING, [Event.ATTENTION])
    assert not is_told_by_runs(ItemKind.HELD, list(Event))
