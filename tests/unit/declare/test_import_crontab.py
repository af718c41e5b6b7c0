"""A crontab in rota's words: what every line means to cron, it means to rota, or it is named."""

import subprocess
from pathlib import Path

import pytest

from rota.declare.importers.crontab import read_crontab, split_percent, translate, with_input
from rota.declare.importers.names import name_for
from rota.declare.importers.translation import Translation
from rota.declare.project import Declared, read_project
from rota.declare.yaml import parse
from rota.model.errors import FileProblems
from rota.model.spec import MisfirePolicy, OverlapPolicy

BERLIN = "Europe/Berlin"


def imported(text: str, *, system: bool = False) -> Translation:
    return translate(read_crontab(text.encode(), file="crontab", system=system), timezone=BERLIN, system=system)


def declared(text: str, *, system: bool = False) -> Declared:
    content = imported(text, system=system).text.encode()
    return read_project(Path("/srv/project"), environment={"HOME": "/home/ops"}, content=content)


def problems(text: str, *, system: bool = False) -> list[str]:
    found = read_crontab(text.encode(), file="crontab", system=system).problems
    return [f"{problem.line}:{problem.column} {problem.code}" for problem in found]


def hints(text: str) -> list[str]:
    return [remark.message for remark in imported(text).by_hand]


def test_a_job_keeps_what_cron_means() -> None:
    job = declared("15 2 * * * pg_dump app\n").jobs[0]
    assert (job.name, job.schedule.cron, job.schedule.timezone) == ("pg-dump", ("15 2 * * *",), BERLIN)
    assert job.work.timeout is None
    assert job.misfire.policy is MisfirePolicy.SKIP
    assert job.overlap.policy is OverlapPolicy.ALLOW
    assert (job.work.shell, job.work.shell_with) == ("pg_dump app", ("/bin/sh", "-c"))
    assert job.work.cwd == "/home/ops"
    assert {item.name: item.value for item in job.work.env} == {"PATH": "/usr/bin:/bin", "SHELL": "/bin/sh"}


def test_a_job_is_not_retried() -> None:
    assert declared("@daily x\n").jobs[0].retry.max_attempts == 1


def test_variables_hold_from_their_line_on() -> None:
    text = "SHELL=/bin/bash\nA = 'one two'\n@daily first\nA=2\nHOME=/srv\nSHELL=/bin/zsh\n@daily second\n"
    first, second = declared(text).jobs
    assert {item.name: item.value for item in first.work.env}["A"] == "one two"
    assert {item.name: item.value for item in second.work.env}["A"] == "2"
    assert (first.work.shell_with, second.work.shell_with) == (("/bin/bash", "-c"), ("/bin/zsh", "-c"))
    assert (first.work.cwd, second.work.cwd) == ("/home/ops", "/srv")


def test_a_secret_is_named_and_not_written_into_the_file() -> None:
    text = "KEY=ghp_" + "a1B2" * 9 + "\n15 2 * * * pg_dump app\n"
    assert "ghp_" not in imported(text).text
    assert {one.name: one.secret for one in declared(text).jobs[0].work.env}["KEY"] == "KEY"
    assert hints(text) == ["KEY looks like a secret: `rota secrets set KEY` stores it, and jobs refer to it by name"]


def test_values_are_not_expanded_as_cron_does_not() -> None:
    job = declared("PATH=$HOME/bin:$PATH\n@daily x\n").jobs[0]
    assert {item.name: item.value for item in job.work.env}["PATH"] == "$HOME/bin:$PATH"


def test_cron_tz_moves_the_times_and_tz_only_the_commands() -> None:
    first, second = declared("@daily a\nCRON_TZ=Asia/Tokyo\nTZ=Europe/Rome\n@daily b\n").jobs
    assert (first.schedule.timezone, second.schedule.timezone) == (BERLIN, "Asia/Tokyo")
    assert {item.name for item in second.work.env} == {"PATH", "SHELL", "TZ"}
    assert any("TZ=Europe/Rome applies to the commands only" in hint for hint in hints("TZ=Europe/Rome\n@daily b\n"))


def test_a_first_cron_tz_is_the_zone_of_the_file() -> None:
    assert declared("CRON_TZ=Asia/Tokyo\n@daily a\n").settings.timezone == "Asia/Tokyo"


@pytest.mark.parametrize(
    ("text", "command", "stdin"),
    [
        ("cmd", "cmd", None),
        (r"date +\%F", "date +%F", None),
        ("cat%one%two", "cat", "one\ntwo"),
        (r"cat%50\% off%", "cat", "50% off\n"),
        ("cat%", "cat", ""),
    ],
)
def test_the_first_percent_begins_the_input(text: str, command: str, stdin: str | None) -> None:
    assert split_percent(text) == (command, stdin)


@pytest.mark.parametrize("stdin", ["one\ntwo", "", "STDIN\n$HOME `x` \\", "it's\n", "%"])
def test_a_command_reads_what_cron_would_feed_it(stdin: str) -> None:
    text = with_input("read -r first; cat >/dev/null; printf '%s' \"$first\"; exit 3 # end", stdin)
    whole = with_input("cat | cat # all of it", stdin)
    ran = subprocess.run(["/bin/sh", "-c", whole], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    assert ran.stdout == (stdin + "\n" if stdin else "")
    assert subprocess.run(["/bin/sh", "-c", text], capture_output=True, check=False).returncode == 3


def test_the_input_reaches_the_job_and_is_told() -> None:
    assert declared("@daily cat%one%two\n").jobs[0].work.shell == "{\ncat\n} <<'STDIN'\none\ntwo\nSTDIN\n"
    assert any("here-document" in hint for hint in hints("@daily cat%one\n"))


@pytest.mark.parametrize("silence", [">/dev/null 2>&1", "> /dev/null 2>&1", "&>/dev/null", ">/dev/null 2>/dev/null"])
def test_output_is_no_longer_thrown_away_and_that_is_told(silence: str) -> None:
    text = f"@daily /opt/warm-cache.sh -q {silence}\n"
    assert declared(text).jobs[0].work.shell == "/opt/warm-cache.sh -q"
    assert hints(text) == [f"`{silence}` dropped from warm-cache: rota keeps the output (rota logs warm-cache)"]


def test_a_redirection_inside_quotes_stays() -> None:
    assert declared('@daily sh -c "x >/dev/null 2>&1"\n').jobs[0].work.shell == 'sh -c "x >/dev/null 2>&1"'


def test_a_lock_that_fails_at_once_is_an_overlap_policy() -> None:
    first, second = declared("@daily flock -n /tmp/x.lock ./a\n@daily flock /tmp/x.lock ./b\n").jobs
    assert (first.overlap.policy, second.overlap.policy) == (OverlapPolicy.FORBID, OverlapPolicy.ALLOW)
    assert hints("@daily flock -n /tmp/x.lock ./a\n")[0].startswith("`flock -n` of a is `overlap: forbid`")


def test_a_command_in_the_background_stays_in_the_run() -> None:
    text = "@daily a && b >/dev/null 2>&1 &\n"
    assert declared(text).jobs[0].work.shell == "a && b"
    assert len(hints(text)) == 2


def test_mail_is_named_with_its_line_and_kept_as_a_comment() -> None:
    found = imported("MAILTO=ops@example.net\n@daily a\nMAILTO=\n@daily b\n")
    assert [remark.line for remark in found.by_hand] == [1]
    assert "# not mapped: MAILTO=ops@example.net\n" in found.text
    names = {item.name for job in declared("MAILTO=x\n@daily a\n").jobs for item in job.work.env}
    assert names == {"PATH", "SHELL"}


def test_what_runs_at_boot_does_so_here() -> None:
    found = declared("CRON_TZ=Asia/Tokyo\n@reboot /opt/warm.sh\n@hourly x\n").jobs
    assert [(job.name, job.schedule.reboot, job.schedule.cron) for job in found] == [
        ("warm", True, ()),
        ("x", False, ("0 * * * *",)),
    ]


@pytest.mark.parametrize("alias", ["@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually"])
def test_an_alias_is_kept_as_written(alias: str) -> None:
    assert parse(imported(f"{alias} x\n").text.encode()).data["jobs"]["x"]["cron"] == alias


def test_comments_stay_above_their_job() -> None:
    lines = imported("# about all\n\n# about x: this\n@daily x\n# last\n").text.splitlines()
    assert lines[0] == "# about all"
    assert lines[lines.index("  x:") - 1] == "  # about x: this"
    assert lines[-1] == "# last"


def test_an_entry_that_is_switched_off_stays_off() -> None:
    text = "#0 4 * * * /opt/old.sh\n# @daily older\n@daily x\n"
    assert [job.name for job in imported(text).jobs] == ["x"]
    assert "old" not in imported(text).text
    assert [remark.line for remark in imported(text).by_hand] == [1, 2]


def test_a_system_crontab_has_users_and_only_root_keeps_running() -> None:
    text = "17 * * * * root run-parts /etc/cron.hourly\n5 4 * * * www-data php x.php\n"
    first, second = declared(text, system=True).jobs
    assert (first.work.shell, first.enabled) == ("run-parts /etc/cron.hourly", True)
    assert (second.work.shell, second.enabled) == ("php x.php", False)
    [remark] = imported(text, system=True).by_hand
    assert "sudo -u www-data -H /bin/sh -c 'php x.php'" in remark.message


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("61 * * * * x\n", ["1:1 cron_range"]),
        ("  0 25 * * * x\n", ["1:3 cron_range"]),
        ("nonsense\n", ["1:1 crontab_line"]),
        ("@daily\n", ["1:7 crontab_line"]),
        ("0 0 * * *\n", ["1:10 crontab_line"]),
        ("0 0 2 * * * y\n", ["1:11 crontab_line"]),
        ("0 0 * * * root x\n", ["1:11 crontab_line"]),
        ("@every 5m x\n", ["1:1 cron"]),
        ("0 0 30 2 * x\n61 * * * * y\n", ["1:1 cron_never_fires", "2:1 cron_range"]),
        ("0 0 * * * %in\n", ["1:11 crontab_line"]),
    ],
)
def test_a_bad_line_is_told_with_its_place(text: str, places: list[str]) -> None:
    assert problems(text) == places


def test_a_system_line_without_a_command_is_told() -> None:
    assert problems("0 0 * * * root\n", system=True) == ["1:15 crontab_line"]


def test_a_file_that_is_no_text_is_told_with_its_place() -> None:
    with pytest.raises(FileProblems) as caught:
        read_crontab(b"@daily a\n@daily \xff\n", file="crontab")
    assert str(caught.value.problems[0]).startswith("crontab:2:8: byte 0xff is not UTF-8")


def test_an_empty_crontab_makes_an_empty_file() -> None:
    assert declared("# nothing here\n").jobs == ()


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("/opt/ops/disk-check.sh -q", "disk-check"),
        ("cd /srv && ./Deploy_All.py", "deploy-all"),
        ("FOO=1 /usr/bin/python3 -u /opt/report.py --week", "report"),
        ("flock -n /tmp/x.lock /usr/bin/php /var/www/feed.php schedule", "feed"),
        ("sudo -u www-data php cron.php", "cron"),
        ("nice -n 19 ionice -c3 restic backup", "restic"),
        ("test -x /usr/sbin/anacron || ( cd / && run-parts --report /etc/cron.daily )", "cron-daily"),
        ("[ -x /a/b ] && c", "c"),
        ("timeout 30m rsync -a x y", "rsync"),
        ("env X=1 node server.mjs", "server"),
        ("%%%", "job"),
        ("bash", "bash"),
        ("$HOME/bin/backup.sh", "backup"),
        ("cd /srv/app && /srv/venv/bin/python manage.py send_mail --all", "send-mail"),
        ("sleep $((RANDOM % 60)); ./manage.py clearsessions", "clearsessions"),
        ("sleep `shuf -i 0-60 -n 1` && /opt/sync.sh", "sync"),
        ("sleep 30; cd /tmp; rm -rf cache", "rm"),
        ("/usr/bin/php /var/www/artisan schedule:run >> /dev/null", "schedule-run"),
        ("python3 -m app.tasks.tidy", "tidy"),
        ("flock -n -E 0 /var/lock/x.lock ./run-it", "run-it"),
        ("flock -n /tmp/lock -c 'cd /srv && ./tidy.sh'", "tidy"),
        ("/usr/bin/flock -w 10 /tmp/l /usr/bin/php /var/www/feed.php", "feed"),
        ("su - postgres -c '/usr/bin/pg_dumpall -f x'", "pg-dumpall"),
        ("/bin/bash -lc 'cd /app && bundle exec rake db:clean --silent'", "db-clean"),
        ("perl -e 'sleep int(rand(9))' && certbot -q renew", "certbot"),
        ("[ -x /a/b ] && if [ ! -d /run/x ]; then /usr/lib/php/sessionclean; fi", "sessionclean"),
        ("date >> /tmp/log; ${HOME}/bin/sync.sh", "sync"),
        ("FOO='a b' '/opt/my script.sh'", "my-script"),
        ("uv run --project /srv python scripts/report.py", "report"),
        ("make -C /srv nightly", "nightly"),
        ("/opt/été.sh", "ete"),
        ("echo 'no end", "echo"),
    ],
)
def test_a_name_says_what_runs(command: str, name: str) -> None:
    assert name_for(command, taken=()) == name


def test_names_are_unique_without_regard_to_case() -> None:
    assert name_for("backup", taken=["Backup", "backup-2"]) == "backup-3"


def test_a_name_is_one_that_a_job_may_have() -> None:
    assert len(name_for("x" * 500, taken=())) <= 60


@pytest.mark.parametrize(
    ("command", "overlap"),
    [
        ("flock -n /tmp/l ./a", "forbid"),
        ("cd /srv; sudo -u ops flock -xn /tmp/l ./a", "forbid"),
        ("flock --nonblock /tmp/l -c './a -q'", "forbid"),
        ("flock /tmp/l rsync -n here there", "allow"),
        ("flock -w 5 /tmp/l ./a -n", "allow"),
    ],
)
def test_only_a_flock_that_does_not_wait_forbids_overlap(command: str, overlap: str) -> None:
    (job,) = declared(f"@daily {command}\n").jobs
    assert str(job.overlap.policy) == overlap
