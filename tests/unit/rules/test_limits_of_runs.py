"""The command lines that keep limits."""

from rota.model.spec import Limits
from rota.rules.sandbox import LimitMethod, limited_argv

LIMITS = Limits(memory=1_000_000, cpus=1.5, processes=9)
SCOPE = (
    *("--scope", "--quiet", "--collect", "--property", "MemoryMax=1000000", "--property", "MemorySwapMax=0"),
    *("--property", "CPUQuota=150%", "--property", "TasksMax=9", "--"),
)


def test_a_scope_of_root_is_one_of_the_system() -> None:
    argv = limited_argv(LIMITS, LimitMethod.SCOPE, ("make",), root=True, address="/run/user/0")
    assert argv == ("systemd-run", *SCOPE, "make")


def test_a_user_without_root_tells_only_systemd_where_its_manager_is() -> None:
    """A run has none of the variables of a login, so that `systemd-run --user` would not find its manager."""
    argv = limited_argv(LIMITS, LimitMethod.SCOPE, ("make",), root=False, address="/run/user/7")
    told = ("env", "XDG_RUNTIME_DIR=/run/user/7", "systemd-run", "--user")
    assert argv == (*told, *SCOPE, "env", "-u", "XDG_RUNTIME_DIR", "make")


def test_a_run_that_has_the_address_keeps_it() -> None:
    argv = limited_argv(LIMITS, LimitMethod.SCOPE, ("make",), root=False)
    assert argv == ("systemd-run", "--user", *SCOPE, "make")


def test_rlimits_bound_memory_and_processes() -> None:
    argv = limited_argv(LIMITS, LimitMethod.RLIMIT, ("make",), root=False)
    assert argv == ("prlimit", "--as=1000000", "--nproc=9", "--", "make")
