"""Asking another interpreter (`python:`) which functions and conditions its modules declare."""

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota.model.names import Names
from rota.rules.ansi import clean_for_terminal
from rota.runners.launch import CHILD

TIMEOUT = 20.0


@dataclass(frozen=True, slots=True)
class InterpreterFinder:
    """Finds functions as another interpreter would import them; nothing is imported here."""

    python: str
    project: Path
    imports: tuple[str, ...] = ()
    timeout: float = TIMEOUT

    def find(self, functions: Sequence[str], conditions: Sequence[str], sources: Sequence[str] = ()) -> Names:
        """Return which of the names are missing, and what there is to know of the conditions."""
        asked = {
            "imports": list(self.imports),
            "functions": [*functions, *sources],
            "conditions": list(conditions),
            "path": str(self.project),
        }
        answer = self._ask(json.dumps(asked))
        asked_for = [*functions, *sources, *conditions]
        return answer if isinstance(answer, Names) else Names(dict.fromkeys(asked_for, answer))

    def _ask(self, question: str) -> Names | str:
        program = os.path.expanduser(self.python)
        program = str(self.project / program) if os.sep in program else program
        try:
            done = subprocess.run(
                [program, str(CHILD), "resolve"],
                input=question.encode(),
                capture_output=True,
                cwd=self.project,
                timeout=self.timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"{program!r} gave no answer within {self.timeout:g} s; its modules take too long to import"
        except OSError as error:
            return f"{program!r} cannot be started: {(error.strerror or str(error)).lower()}"
        return _read(done, program)


def _read(done: "subprocess.CompletedProcess[bytes]", program: str) -> Names | str:
    try:
        answer: Any = json.loads(done.stdout)
        missing = {str(name): str(message) for name, message in answer["missing"].items()}
        return Names(missing, frozenset(answer["conditions"]), frozenset(answer["needing_poll"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        pass  # it is no answer: what it wrote to stderr may say why
    lines = clean_for_terminal(done.stderr.decode("utf-8", "replace")).strip().splitlines()
    return f"{program!r} ended with exit {done.returncode}" + (f": {lines[-1]}" if lines else "")
