"""Programs that answer as the agents do when they are looked for, and do nothing else."""

from pathlib import Path

from rota.agents.registry import adapter


def answering(
    folder: Path,
    name: str,
    version: str = "1.2.3",
    *,
    logged_in: bool = True,
    options: tuple[str, ...] | None = None,
    report: str = "",
) -> Path:
    """Write a program that tells its version, its login by exit code, and the options that it knows."""
    kind = adapter(name).probe
    assert kind is not None
    known = " ".join(kind.options if options is None else options)
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(
        "#!/bin/sh\n"
        f'case "$*" in\n  *--help) echo "usage: {known}" ;;\n  --version) echo "{version}" ;;\n'
        f"  *status) exit {0 if logged_in else 1} ;;\n  doctor*) echo '{report}' ;;\n  *) exit 9 ;;\nesac\n"
    )
    path.chmod(0o755)
    return path
