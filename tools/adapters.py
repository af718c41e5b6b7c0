"""Print the table of what each adapter supports; `--write` stores it in docs/adapter-support.md."""

import sys
from pathlib import Path

from rota.agents.registry import FIXED
from rota.model.agents import Access

PAGE = Path(__file__).parents[1] / "docs" / "adapter-support.md"
BEGIN, END = "<!-- table of tools/adapters.py -->", "<!-- end of the table -->"
ROWS = {
    "`access`": lambda kind: ", ".join(level for level in Access if level in kind.capabilities.access),
    "`model`": lambda kind: "needed" if kind.needs_model else _yes(kind.capabilities.model),
    "`allowed_tools`": lambda kind: _yes(kind.capabilities.allowed_tools),
    "`max_turns`": lambda kind: _yes(kind.capabilities.max_turns),
    "`max_usd`": lambda kind: _yes(kind.capabilities.max_usd),
    "`loop_guard`": lambda kind: _yes(kind.capabilities.loop_guard),
    "`session: resume`, `on_quota: continue`": lambda kind: _yes(kind.capabilities.resume),
    "a copy of the session for `rota fork`": lambda kind: _yes(kind.capabilities.fork),
    "`rota_tools`": lambda kind: _yes(kind.capabilities.tools_server),
    "`trust_project`": lambda kind: _yes(kind.capabilities.trust),
    "`args`": lambda kind: _yes(kind.capabilities.args),
    "`system_prompt`": lambda kind: _yes(kind.capabilities.system_prompt),
    "`add_dirs`": lambda kind: _yes(kind.capabilities.add_dirs),
    "`mcp_servers`": lambda kind: _yes(kind.capabilities.mcp_servers),
    "`profile`": lambda kind: _yes(kind.capabilities.profile),
    "`account`": lambda kind: f"`{kind.home}`" if kind.home else "",
    "`after`": lambda kind: _yes(kind.invoke is not None),
    "[windows of its subscription](subscriptions.md)": lambda kind: _yes(kind.capabilities.windows),
    "cost in dollars": lambda kind: _yes(kind.capabilities.cost),
}


def _yes(value: bool) -> str:  # noqa: FBT001
    return "yes" if value else ""


def table() -> str:
    """Return the table, one row a key and one column an adapter."""
    lines = [f"| | {' | '.join(f'`{name}`' for name in FIXED)} |", f"|---|{'---|' * len(FIXED)}"]
    lines += [f"| {title} | {' | '.join(tell(kind) for kind in FIXED.values())} |" for title, tell in ROWS.items()]
    return "\n".join(lines)


def page() -> str:
    """Return the page with the present table."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page(), "utf-8")
    else:
        print(table())
