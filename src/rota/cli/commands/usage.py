"""`rota usage` and `budgets`."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, RotaCommand, print_json
from rota.cli.output import Cell, Column, Row, print_pairs, print_table
from rota.model.amounts import say_money
from rota.model.clock import say_duration
from rota.rules.budgets import say_account, say_amount, say_this, say_used, say_window
from rota.text.ansi import plain
from rota.text.format import full_time, read_instant, whole_seconds

if TYPE_CHECKING:
    from rota.operations.budgets import AccountHistory, AccountView, SubscriptionView, UsageView
    from rota.store.tables.budgets import Amount, Used


UNKNOWN = "?"


@click.command("usage", cls=RotaCommand)
@click.option(
    "--by",
    type=click.Choice(["job", "agent", "model", "outcome", "day"]),
    default="job",
    show_default=True,
    help="Group the rows by this.",
)
@click.option(
    "--since",
    metavar="TIME",
    default="30d",
    show_default=True,
    help="Only usage since this time: 30d, today, 2026-11-15.",
)
@click.option("--job", metavar="JOB", help="Only usage of this job.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@click.pass_obj
def usage_command(invocation: Invocation, *, by: str, since: str, job: str | None, as_csv: bool) -> None:
    """Show the usage of runs and direct calls. `?` is unknown; `≥` means that some runs reported no usage."""
    from rota.operations.budgets import By, look_at_usage, usage_json

    if as_csv and invocation.as_json:
        raise click.UsageError("--csv and --json cannot be combined")
    now = invocation.now()
    with invocation.store() as (place, store):
        tz = invocation.zone(store)
        begin = read_instant(since, tz, now=now)
        view = look_at_usage(store, by=By(by), since=begin, tz=tz, now=now, job=job, scope=place.scope)
    if invocation.as_json:
        print_json(usage_json(view))
    elif as_csv:
        click.echo(_csv(view), nl=False)
    else:
        invocation.tell_scope()
        _show(view, tz)


def _csv(view: "UsageView") -> str:
    import csv
    import io

    from rota.operations.budgets import used_json

    text = io.StringIO()
    rows = [{view.by.value: used.name or "", **used_json(used)} for used in view.rows]
    names = [view.by.value, *used_json(view.total)]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _show(view: "UsageView", tz: str) -> None:
    if not view.rows:
        click.echo(f"nothing ran since {full_time(view.since, tz, now=view.until)} ({tz})")
        return
    columns = [(title, of) for title, of in COLUMNS if any(of(used) != UNKNOWN for used in view.rows)]
    lines = [*view.rows, view.total] if len(view.rows) > 1 else list(view.rows)
    names = [used.name or UNNAMED[view.by] for used in view.rows] + ["total"] * (len(lines) > len(view.rows))
    texts = [[of(used) for _, of in columns] for used in lines]
    widths = [max(len(title), *(len(row[at]) for row in texts)) for at, (title, _) in enumerate(columns)]
    titles = [title.rjust(width) for (title, _), width in zip(columns, widths, strict=True)]
    rows = [
        [name, *(text.rjust(width) for text, width in zip(row, widths, strict=True))]
        for name, row in zip(names, texts, strict=True)
    ]
    print_table([view.by.value.upper(), *titles], rows)


UNNAMED = {"job": "(reserved slots)", "agent": "(no agent)", "model": "(unknown)", "outcome": "", "day": ""}
"""The labels of lines without a name."""


COLUMNS: "list[tuple[str, Callable[[Used], str]]]" = [
    ("RUNS", lambda used: f"{used.runs:,}"),
    ("TIME", lambda used: say_duration(whole_seconds(used.took))),
    ("TOKENS IN", lambda used: _told(used, used.tokens_in)),
    ("TOKENS OUT", lambda used: _told(used, used.tokens_out)),
    ("REQUESTS", lambda used: _told(used, used.requests)),
    ("COST", lambda used: _told(used, used.usd, say_money)),
]


def _told(used: "Used", amount: "Amount", say: Callable[[int], str] = "{:,}".format) -> str:
    if not amount.told:
        return UNKNOWN
    return f"{'≥ ' if amount.told < used.runs else ''}{say(amount.total)}"


BAR = 12


@click.command("budgets", cls=RotaCommand)
@click.argument("account", required=False)
@click.pass_obj
def budgets_command(invocation: Invocation, *, account: str | None) -> None:
    """Show budget accounts: used, reserved, left, reopening, forecast, waiting runs; or one with its history."""
    from rota.operations.budgets import (
        account_json,
        history_json,
        list_accounts,
        list_subscriptions,
        show_account,
        subscription_json,
    )

    now = invocation.now()
    with invocation.store() as (_, store):
        subscriptions, zone = list_subscriptions(store, now=now), invocation.zone(store)
        subscription_views = [
            view for view in subscriptions if account in [subscription.name for subscription in view.budgets]
        ]
        if subscription_views:
            if invocation.as_json:
                print_json({"subscriptions": [subscription_json(view) for view in subscription_views]})
            else:
                show_subscriptions(subscription_views, zone, now=now)
            return
        if account is not None:
            history = show_account(store, account, now=now)
            print_json(history_json(history)) if invocation.as_json else _show_one(history, now=now)
            return
        views = list_accounts(store, now=now)
    if invocation.as_json:
        told = [subscription_json(view) for view in subscriptions]
        print_json({"budgets": [account_json(view) for view in views], "subscriptions": told})
    elif not views and not subscriptions:
        click.echo("no budgets; declare one in rota.yaml: `budgets: {claude-day: {usd: 10, per: day}}`")
    else:
        _show_all(views, now=now)
        show_subscriptions(subscriptions, zone, now=now)


def show_subscriptions(views: "Sequence[SubscriptionView]", zone: str, *, now: datetime) -> None:
    """Print the windows of subscriptions, and what budgets keep of them."""
    from rota.operations.budgets import kept_words, windows_words

    for view in views:
        click.echo(f"windows of {plain(view.provider)}: {plain(windows_words(view, zone, now=now))}")
        for line in kept_words(view, zone, now=now):
            click.echo(plain(line))


def _show_all(views: "list[AccountView]", *, now: datetime) -> None:
    from rota.operations.budgets import forecast_words, reopens_words

    if not views:
        return
    columns = ("ACCOUNT", "USED", "", "RESERVED", "LEFT", Column("REOPENS", flexible=True), "FORECAST")
    rows: list[Row] = [
        [
            view.account.name,
            _settled(view),
            Cell(bar(view), "red" if view.over else "yellow" if view.waiting else None),
            say_amount(view.reserved, view.account.unit, noun=False),
            say_amount(view.left, view.account.unit, noun=False),
            reopens_words(view, now=now),
            forecast_words(view),
        ]
        for view in views
    ]
    print_table(columns, rows)
    for view in views:
        for line in _remarks(view):
            click.echo(line)


def bar(view: "AccountView") -> str:
    """Return a bar of an account: spent, reserved, left."""
    limit = view.account.limit
    settled = min(round(view.settled * BAR / limit), BAR)
    used = min(max(round(view.used * BAR / limit), settled), BAR)
    return "█" * settled + "▒" * (used - settled) + "░" * (BAR - used)


def _settled(view: "AccountView") -> str:
    return say_used(view.settled, view.account.limit, view.account.unit)


def _remarks(view: "AccountView") -> Iterator[str]:
    from rota.operations.budgets import other_remarks, over_words

    if over := over_words(view):
        yield click.style(over, fg="red")
    yield from other_remarks(view)


def _show_one(found: "AccountHistory", *, now: datetime) -> None:
    from rota.operations.budgets import forecast_words, reopens_words

    view, unit = found.view, found.view.account.unit
    click.echo(f"{view.account.name}  {say_account(view.account)}")
    reserved, left = say_amount(view.reserved, unit, noun=False), say_amount(view.left, unit, noun=False)
    print_pairs(
        [
            ("used", f"{_settled(view)}, {reserved} reserved, {left} left   {bar(view)}"),
            ("reopens", reopens_words(view, now=now)),
            ("forecast", forecast_words(view)),
        ]
    )
    for line in _remarks(view):
        click.echo(f"  {line}")
    _show_windows(found)
    _show_spenders(found)


def _show_windows(found: "AccountHistory") -> None:
    account = found.view.account
    if not found.windows:
        click.echo("nothing charged yet")
        return
    rows = []
    for window in found.windows:
        estimated = f"{say_amount(window.estimated, account.unit, noun=False)} estimated" if window.estimated else ""
        over = say_amount(window.used - window.limit, account.unit, noun=False) if window.used > window.limit else ""
        rows.append(
            [
                say_window(window.window.since, account.per, account.timezone),
                say_amount(window.used, account.unit, noun=False),
                say_amount(window.limit, account.unit, noun=False),
                over,
                "forgotten" if window.runs is None else f"{window.runs:,}",
                estimated,
            ]
        )
    click.echo("")
    print_table(("WINDOW", "USED", "LIMIT", "OVER", "RUNS", ""), rows)


def _show_spenders(found: "AccountHistory") -> None:
    account, total = found.view.account, found.view.used
    if not found.spenders:
        return
    rows = []
    for spender in found.spenders:
        share = f"{spender.used * 100 / total:.0f} %" if total else ""
        under_way = f"{spender.under_way} in progress" if spender.under_way else ""
        unknown = f"{say_amount(spender.estimated, account.unit, noun=False)} estimated" if spender.estimated else ""
        remark = ", ".join(part for part in (under_way, unknown) if part)
        rows.append(
            [spender.job, f"{spender.runs:,}", say_amount(spender.used, account.unit, noun=False), share, remark]
        )
    click.echo("")
    print_table((f"SPENT {say_this(account.per).upper()}", "RUNS", "USED", "SHARE", ""), rows)
