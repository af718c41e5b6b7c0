"""What the reading of one file finds: problems with their places, and names that somebody must know."""

import os
from collections.abc import Sequence

from rota.declare.fields import shown
from rota.declare.files import Document, KeyPath, write_path
from rota.declare.mentions import Mention
from rota.declare.troubles import Trouble
from rota.model.errors import Problem


class Findings:
    """Collects what is found in a document, from its start to its end."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems = list(document.problems)
        self.mentions: list[Mention] = []
        self.lost: set[str] = set()
        """Interpreters that are not there, and so cannot be asked for names."""
        self.agents_known = True
        """Whether it is known which functions are agents: a module that fails may have registered some."""

    def tell(self, base: KeyPath, troubles: Sequence[Trouble]) -> None:
        """Make problems of troubles below `base`, with their places in the file."""
        for trouble in troubles:
            path = self._written_path((*base, *trouble.path))
            if any(path[: len(spoilt)] == spoilt for spoilt in self.document.spoilt):
                continue
            if trouble.code == "unknown_agent" and not self.agents_known:
                continue
            place = self.document.place(path)
            self.problems.append(Problem(trouble.message, trouble.code, *place, write_path(path), trouble.hint))

    def told(self, base: KeyPath) -> bool:
        """Tell whether something is wrong below a key."""
        key = write_path(base)
        return any(problem.path == key or problem.path.startswith(f"{key}.") for problem in self.problems)

    def check_interpreter(self, path: str, key: KeyPath, *, written: str) -> None:
        """Tell an interpreter that is not there, and let nobody ask it."""
        if "/" in path and not os.access(path, os.X_OK):
            self.lost.add(path)
            hint = "create the environment, or correct the path"
            self.tell(key, [Trouble((), f"there is no program {shown(written)}", "python_missing", hint)])

    def _written_path(self, path: KeyPath) -> KeyPath:
        # A command written as one text has words but no items, and a default stands elsewhere than its job.
        while path not in self.document.keys and isinstance(path[-1] if path else None, int):
            path = path[:-1]
        return path
