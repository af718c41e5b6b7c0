"""Projects, their files and the jobs that are declared in them."""

from collections.abc import Sequence

from rota.model.errors.root import Problem, RotaError, guess


class ProjectMissing(RotaError):
    """There is no rota.yaml here or above."""

    code = "no_project"


class NotApplied(RotaError):
    """A project has no stored jobs yet."""

    code = "not_applied"

    def __init__(self, folder: str) -> None:
        super().__init__(
            f"nothing of {folder} is applied yet",
            hint="`rota apply` stores the jobs of its rota.yaml; `rota serve` does so when it starts",
        )


class FileProblems(RotaError):
    """A rota.yaml has problems; `problems` lists them all, `effect` says what became of the rest."""

    code = "file_problems"

    def __init__(self, problems: Sequence[Problem], *, effect: str = "nothing was changed") -> None:
        count = len(problems)
        super().__init__(f"{count} problem{'s' * (count != 1)}")
        self.problems = tuple(problems)
        self.effect = effect


class JobProblems(FileProblems):
    """What Python code declares has problems; they read as those of a file, without places."""

    code = "job_problems"

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


class FolderUntrusted(RotaError):
    """A command would run code of a project that the user has not trusted."""

    code = "folder_untrusted"

    def __init__(self, folder: str, code: Sequence[str], *, what: str = "the Python modules") -> None:
        super().__init__(
            f"{folder} is not trusted, and {what} {', '.join(code)} would run",
            hint="look at that code, then type `rota trust` in this folder",
        )


class EmptyApply(RotaError):
    """An apply would retire every job of the file."""

    code = "empty_apply"


class NameTaken(RotaError):
    """A job of another source has this name."""

    code = "name_taken"


class JobInFile(RotaError):
    """A job is changed in the file that declares it, else the next apply would undo the change."""

    code = "job_in_file"

    def __init__(self, name: str, place: Problem, *, hint: str) -> None:
        line = f":{place.line}" if place.line else ""
        super().__init__(f"job {name!r} is declared in {place.file}{line}", hint=hint)
        self.problems = (place,)


class UnknownJob(RotaError):
    """No job has this name."""

    code = "unknown_job"

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        super().__init__(f"no job is named {name!r}", hint=f"{guess(near)}list them with `rota list`")
        self.name = name
        self.near = tuple(near)


class JobDisabled(RotaError):
    """A disabled or retired job does not start."""

    code = "job_disabled"

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"job {name!r} is {why}", hint="set `enabled: true` in its definition and apply it")


class FunctionMissing(RotaError):
    """A Python function that a job names cannot be found."""

    code = "function_missing"
