"""`rota budgets`: what is used of each account, what is left, when it opens again, and where it will end."""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import click

from rota.cli.invocation import Invocation, RotaCommand, print_json

if TYPE_CHECKING:
    from rota.operations.budgets import AccountHistory, AccountView

BAR = 12


@click.command("budgets", cls=RotaCommand)
@click.argument("account", required=False)
@click.pass_obj
def command(invocation: Invocation, *, account: str | None) -> None:
    """Show the accounts of `budgets`: used, reserved, left, reopening, forecast, who waits; or one with its history."""
    from rota.operations.budgets import account_json, history_json, list_accounts, show_account

    now = invocation.now()
    with invocation.store() as (_, store):
        if account is not None:
            found = show_account(store, account, now=now)
            print_json(history_json(found)) if invocation.as_json else _show_one(found, now=now)
            return
        views = list_accounts(store, now=now)
    if invocation.as_json:
        print_json({"budgets": [account_json(view) for view in views]})
    elif not views:
        click.echo("no budgets; declare one in rota.yaml: `budgets: {claude-day: {usd: 10, per: day}}`")
    else:
        _show_all(views, now=now)


def _show_all(views: "list[AccountView]", *, now: datetime) -> None:
    from rota.cli.tables import Cell, Column, Row, print_table
    from rota.operations.budget_words import forecast_words, reopens_words
    from rota.rules.budget_words import say_amount

    titles = ("ACCOUNT", "USED", "", "RESERVED", "LEFT", "REOPENS", "FORECAST")
    columns = [Column(title, flexible=title == "REOPENS") for title in titles]
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
    """Return how full an account is: what is spent, what is reserved, what is left."""
    limit = view.account.limit
    settled = min(round(view.settled * BAR / limit), BAR)
    used = min(max(round(view.used * BAR / limit), settled), BAR)
    return "█" * settled + "▒" * (used - settled) + "░" * (BAR - used)


def _settled(view: "AccountView") -> str:
    from rota.rules.budget_words import say_used

    return say_used(view.settled, view.account.limit, view.account.unit)


def _remarks(view: "AccountView") -> Iterator[str]:
    from rota.operations.budget_words import other_remarks, over_words

    if over := over_words(view):
        yield click.style(over, fg="red")
    yield from other_remarks(view)


def _show_one(found: "AccountHistory", *, now: datetime) -> None:
    from rota.cli.tables import print_pairs
    from rota.operations.budget_words import forecast_words, reopens_words
    from rota.rules.budget_words import say_account, say_amount

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
    from rota.cli.tables import Column, print_table
    from rota.rules.budget_words import say_amount, say_window

    account = found.view.account
    if not found.windows:
        click.echo("nothing was charged to it yet")
        return
    rows = []
    for one in found.windows:
        estimated = f"{say_amount(one.estimated, account.unit, noun=False)} estimated" if one.estimated else ""
        over = say_amount(one.used - one.limit, account.unit, noun=False) if one.used > one.limit else ""
        rows.append(
            [
                say_window(one.window.since, account.per, account.timezone),
                say_amount(one.used, account.unit, noun=False),
                say_amount(one.limit, account.unit, noun=False),
                over,
                "forgotten" if one.runs is None else f"{one.runs:,}",
                estimated,
            ]
        )
    click.echo("")
    print_table([Column(title) for title in ("WINDOW", "USED", "LIMIT", "OVER", "RUNS", "")], rows)


def _show_spenders(found: "AccountHistory") -> None:
    from rota.cli.tables import Column, print_table
    from rota.rules.budget_words import say_amount, say_this

    account, total = found.view.account, found.view.used
    if not found.spenders:
        return
    rows = []
    for one in found.spenders:
        share = f"{one.used * 100 / total:.0f} %" if total else ""
        under_way = f"{one.under_way} under way" if one.under_way else ""
        unknown = f"{say_amount(one.estimated, account.unit, noun=False)} estimated" if one.estimated else ""
        remark = ", ".join(part for part in (under_way, unknown) if part)
        rows.append([one.job, f"{one.runs:,}", say_amount(one.used, account.unit, noun=False), share, remark])
    click.echo("")
    print_table(
        [Column(title) for title in (f"SPENT {say_this(account.per).upper()}", "RUNS", "USED", "SHARE", "")], rows
    )
