"""What every test may rely on, whatever the machine and the shell it was started from are like."""

import os
import sys
import time

from hypothesis import HealthCheck, settings

from rota.faults import VARIABLE

MACHINE = "ROTA_MACHINE"
"""How many examples the state machine plays; see `tests/machine/`."""
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
"""With it each of some hundred processes would compile all that it imports: a third of the time of all tests."""
STRANGE = ("ROTA_", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "LC_", "LANGUAGE", NO_BYTECODE)

for name in [name for name in os.environ if name.startswith(STRANGE) and name not in (VARIABLE, MACHINE)]:
    del os.environ[name]
os.environ |= {"TZ": "UTC", "LANG": "C.UTF-8", "TERM": "dumb"}
time.tzset()
sys.dont_write_bytecode = False
os.umask(0o022)

SLOW_IS_FINE = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture)
settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=SLOW_IS_FINE)
settings.register_profile("new", deadline=None, suppress_health_check=SLOW_IS_FINE, database=None)
settings.load_profile("same")
"""The same examples in every run; `pytest --hypothesis-profile new` draws new ones."""
