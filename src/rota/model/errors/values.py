"""Values that a user wrote and that cannot be used."""

from collections.abc import Sequence

from rota.model.errors.root import RotaError, guess, shown


class InvalidValue(RotaError):
    """A value that a user wrote cannot be used."""

    code = "invalid_value"


class OptionLike(InvalidValue):
    """A param that somebody gives would be read as an option of the job's program."""

    code = "arg_option_like"

    def __init__(self, job: str, param: str, value: str) -> None:
        super().__init__(
            f"{value[:80]!r} as param {param!r} of job {job!r} would be an option of its program",
            hint=f"the job may put `--` before `{{{{ params.{param} }}}}`, or write `--name={{{{ params.{param} }}}}`",
        )


class InvalidDuration(InvalidValue):
    """A text is no duration."""

    code = "duration_format"

    def __init__(self, text: object, problem: str) -> None:
        super().__init__(
            f"{shown(text)} {problem}",
            hint="write one whole number and one unit: 30s, 5m, 1h, 1d, or whole seconds",
        )
        self.problem = problem


class InvalidCron(InvalidValue):
    """A cron expression is wrong, ambiguous, or never fires."""

    code = "cron"


class CronFields(InvalidCron):
    """A cron expression does not have five fields."""

    code = "cron_fields"


class CronCharacters(InvalidCron):
    """A cron expression is too long or holds characters that no field can have."""

    code = "cron_charset"


class CronRange(InvalidCron):
    """A value of a cron field is outside its range, or a range runs backwards."""

    code = "cron_range"


class CronStep(InvalidCron):
    """A step of a cron field is zero or larger than the field."""

    code = "cron_step"


class CronNeverFires(InvalidCron):
    """A cron expression names only days that do not exist."""

    code = "cron_never_fires"


class InvalidTimezone(InvalidValue):
    """A time zone is not known by name."""

    code = "timezone"

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        super().__init__(
            f"no time zone is named {name!r}", hint=f"{guess(near)}use an IANA name such as Europe/Paris, or UTC"
        )


class InvalidInstant(InvalidValue):
    """A point in time does not exist, exists twice, or cannot be read."""

    code = "instant"


class InvalidWindow(InvalidValue):
    """A text is no window of quiet hours (R-17)."""

    code = "quiet_window"

    def __init__(self, text: object, problem: str, *, hint: str = "") -> None:
        example = 'write "00:00-07:00", "mon-fri 09:00-19:00" or "sat,sun 22:00-07:00"'
        super().__init__(f"{shown(text)} {problem}", hint=hint or example)
