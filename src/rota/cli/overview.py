"""The commands by group, and the text of `rota --help`: printed without importing click."""

import os

SUMMARY = "Schedule AI agents and scripts, run them safely, and explain every decision."
MAX_WIDTH = 110
"""Paragraphs are never wider."""

OVERVIEW: dict[str, tuple[tuple[str, str], ...]] = {
    "Start here": (
        ("init", "create a commented rota.yaml in this folder"),
        ("check", "list all problems of rota.yaml by line and column"),
        ("serve", "run the scheduler, with its dashboard and HTTP API"),
        ("run", "start a job now and follow it"),
        ("status", "show health, problems, running runs and next fires"),
        ("demo", "serve an example project with its dashboard"),
    ),
    "See": (
        ("list, show", "all jobs; one job or run"),
        ("history, logs", "past runs; output of a run"),
        ("explain", "why a job ran or did not"),
        ("next, digest", "next fires; latest events"),
        ("usage, stats", "tokens and cost; durations"),
        ("diff, spans", "compare runs; time spent"),
        ("simulate", "the next days, simulated"),
        ("open", "the dashboard in a browser"),
    ),
    "Act": (
        ("add", "add a job to rota.yaml"),
        ("apply", "store the jobs of rota.yaml"),
        ("trigger", "start a job and do not wait"),
        ("direct", "call a job before the queue"),
        ("retry, cancel", "run again; stop runs"),
        ("pause, resume", "stop firing; fire again"),
        ("backfill", "runs for past instants"),
        ("ack", "acknowledge problems"),
    ),
    "Queue": (
        ("queue", "queued runs, in order"),
        ("groups", "groups of runs"),
        ("move, edit", "order; params or priority"),
    ),
    "Agents": (
        ("agents", "versions, logins, limits"),
        ("budgets", "used, reserved and left"),
        ("approve, remove", "proposed jobs; agents' jobs"),
        ("questions", "list questions to people"),
        ("answer, grants", "a question; allowed calls"),
        ("attach, sessions", "enter one; list or reset"),
        ("fork, worktrees", "fork a run; kept work"),
        ("mcp, touch", "agents' tools; activity"),
    ),
    "Operate": (
        ("stop", "stop the scheduler"),
        ("service", "install as a system service"),
        ("tick", "run due jobs once"),
        ("worker, workers", "run one; list or drain"),
        ("notify", "notification targets"),
        ("deliveries", "sent, failed notifications"),
        ("verify, doctor", "check database; machine"),
        ("backup, restore", "write a file; read it back"),
        ("migrate", "copy to another database"),
        ("token, secrets", "of the HTTP API; of jobs"),
        ("audit", "log of all changes"),
        ("trust", "allow this folder's code"),
        ("import, takeover", "of other files; of cron"),
        ("export, schema", "jobs as YAML; JSON Schema"),
        ("completion", "for bash, zsh and fish"),
        ("help", "of one command or of all"),
    ),
}
"""The commands of `rota --help`: of those that share a line, each has its part of the text."""
ALONE = {
    "show": "show one job or run",
    "stats": "durations, success and lateness over time",
    "list": "list all jobs",
    "logs": "print the output of a run",
    "retry": "run a finished run again",
    "move": "change the order of queued runs",
    "edit": "change params or priority of a queued run",
    "approve": "approve proposed jobs",
    "remove": "remove jobs of agents",
    "answer": "answer a question",
    "grants": "list and revoke standing permissions of calls",
    "attach": "enter the session of an agent's run",
    "fork": "start a run from the session of another",
    "mcp": "serve the tools for agents",
    "touch": "record activity",
    "worker": "run one more worker",
    "workers": "list or drain workers",
    "doctor": "check this machine",
    "verify": "check the database",
    "backup": "write a backup of the database",
    "restore": "restore a backup",
    "token": "tokens of the HTTP API",
    "secrets": "secrets of jobs",
    "import": "convert files of other schedulers",
    "takeover": "move your crontab to rota, or back",
    "export": "print jobs as YAML",
    "schema": "print the JSON Schema of rota.yaml",
    "completion": "print the completion for bash, zsh or fish",
    "help": "help of one command or of all",
}
"""Summaries that stand alone, for commands whose text in the overview needs its neighbour."""
COMMANDS = {
    name: (group, ALONE.get(name, summary))
    for group, cells in OVERVIEW.items()
    for names, text in cells
    for name, summary in zip(names.split(", "), text.split("; ") if ", " in names else [text], strict=True)
}
"""The group and the summary of each command."""
OVERVIEW_WIDTH = 100


def overview() -> str:
    """Return the help of `rota`: the commands by group, two per line on a wide terminal."""
    across = 2 if _columns() >= OVERVIEW_WIDTH else 1
    lines = ["Usage: rota [OPTIONS] COMMAND …", "", *_paragraph(SUMMARY)]
    for group, cells in OVERVIEW.items():
        lines.append("")
        rows = -(-len(cells) // (1 if group == "Start here" else across))
        for row in range(rows):
            texts = [f"{names:17}{text:28}" for names, text in cells[row::rows]]
            lines.append(f"{group if not row else '':12}{''.join(texts).rstrip()}")
    lines += ["", "Options     --dir PATH (the project's folder), --version, --help"]
    lines += ["More        `rota COMMAND --help`: options and examples"]
    return "\n".join(lines) + "\n"


def _paragraph(text: str) -> list[str]:
    import textwrap

    width = max(min(terminal_width(80), MAX_WIDTH) - 2, 50)
    return textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="  ")


def _columns() -> int:
    """Return the width of the terminal, also when a pager reads stdout."""
    try:
        return terminal_width(os.get_terminal_size(2).columns)
    except OSError:
        return terminal_width(OVERVIEW_WIDTH)


def terminal_width(otherwise: int = 80) -> int:
    """Return the width of the terminal of stdout."""
    import shutil

    return shutil.get_terminal_size((otherwise, 0)).columns
