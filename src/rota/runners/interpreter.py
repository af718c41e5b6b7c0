"""Asking another interpreter (`python:`) which functions and conditions its modules declare."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota.runners.launch import CHILD
from rota.runners.output import clean_for_terminal

TIMEOUT = 20.0


@dataclass(frozen=True, slots=True)
class InterpreterFinder:
    """Finds functions as another interpreter would import them; nothing is imported here."""

    python: str
    project: Path
    imports: tuple[str, ...] = ()
    timeout: float = TIMEOUT

    def find(self, functions: Sequence[str], conditions: Sequence[str]) -> Mapping[str, str]:
        """Return a message for each name that is missing, and for each module that cannot be imported."""
        asked = {
            "imports": list(self.imports),
            "functions": list(functions),
            "conditions": list(conditions),
            "path": str(self.project),
        }
        answer = self._ask(json.dumps(asked))
        if isinstance(answer, dict):
            return {str(name): str(message) for name, message in answer.items()}
        return dict.fromkeys([*functions, *conditions], answer)

    def _ask(self, question: str) -> dict[str, Any] | str:
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


def _read(done: "subprocess.CompletedProcess[bytes]", program: str) -> dict[str, Any] | str:
    try:
        answer: Any = json.loads(done.stdout)
    except ValueError:
        answer = None
    if isinstance(answer, dict):
        return answer
    lines = clean_for_terminal(done.stderr.decode("utf-8", "replace")).strip().splitlines()
    return f"{program!r} ended with exit {done.returncode}" + (f": {lines[-1]}" if lines else "")
