"""Placeholders in the texts of a job that cannot be filled when it runs (R-25)."""

from rota.declare.files import KeyPath
from rota.declare.fitting import Keys
from rota.declare.troubles import Trouble
from rota.model.spec import JobSpec, Kind, Work
from rota.rules.placeholders import PromptPlaces, check_placeholders, known_placeholders


def placeholder_troubles(spec: JobSpec, keys: Keys) -> list[Trouble]:
    """Return what is wrong with the placeholders of a job's texts."""
    work = spec.work
    texts: list[tuple[KeyPath, str]] = [(("command", index), word) for index, word in enumerate(work.command)]
    texts += [(("env", variable.name), variable.value) for variable in work.env if variable.value]
    texts += [((key,), keys[key]) for key in ("cwd", "prompt_file") if key in keys]
    after = keys.get("after") if work.kind is Kind.AGENT else None
    if after is not None:
        texts += [(("after", "command", index), word) for index, word in enumerate(after.command)]
    for index, condition in enumerate(spec.gates.conditions):
        texts += [(("conditions", index), word) for word in condition.command]
    troubles = [one for path, text in texts for one in _unfilled(path, text, work)]
    places = PromptPlaces(conditions=len(spec.gates.conditions), item="work_source" in keys)
    for key in ("prompt", "task") if keys.get("placeholders", True) else ():
        troubles += _unfilled((key,), keys.get(key, ""), work, prompt=places)
    shells = [(("shell",), work.shell), (("after", "shell"), after.shell if after else "")]
    return troubles + [one for path, text in shells for one in _shell_troubles(path, text)]


def _unfilled(path: KeyPath, text: str, work: Work, *, prompt: PromptPlaces | None = None) -> list[Trouble]:
    """Return the placeholders of a text that cannot be filled."""
    if "{{" not in text:
        return []
    found = check_placeholders(text, params=work.params, prompt=prompt)
    parts = [message.partition("; ") for message in found]
    looks_at = ("params", "conditions", "work_source") if prompt else ("params",)
    return [Trouble(path, message, "placeholder", hint, looks_at) for message, _, hint in parts]


def _shell_troubles(path: KeyPath, text: str) -> list[Trouble]:
    known = known_placeholders(text) if "{{" in text else []
    if not known:
        return []
    hint = "use $ROTA_DATE, $ROTA_SCHEDULED_FOR, $ROTA_PARAM_NAME, $ROTA_JOB or $ROTA_RUN"
    return [Trouble(path, f"`{known[0]}` is not filled in a shell's text", "placeholder", hint)]
