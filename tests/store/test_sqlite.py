"""SQLite alone: the pragmas, the writer thread with its group commit, a full disk, several processes."""

import asyncio
import subprocess
import sys
import threading
from functools import partial
from itertools import pairwise

import apsw
import pytest

from rota.model.errors import DatabaseBusy, DatabaseCorrupt, StateError, StorageFull
from rota.store.driver import WriteOptions
from rota.store.migrate import open_store
from rota.store.sqlite.store import LockWait, connect, mark_database, read_head
from rota.store.tables import jobs, run_queries
from tests.store.making import NOW, add_job, insert_run
from tests.waiting import LONGEST_WAIT

LARGE = {"text": "x" * 20_000}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "rota.db"


@pytest.fixture
def store(path):
    open_store(path, now=NOW).close()
    connect(path).execute("VACUUM").fetchall()  # its migrations leave free pages, which would be room on a full disk
    store = open_store(path, now=NOW)
    yield store
    store.close()


@pytest.fixture
def beside(store, path):
    """Return a second connection, which sees only what is committed."""
    return connect(path)


def run_count(connection):
    return connection.execute("SELECT count(*) FROM run").fetchone()[0]


def pragma(db, name):
    return db._connection.execute(f"PRAGMA {name}").fetchone()[0]


@pytest.mark.parametrize(("name", "value"), [("journal_mode", "wal"), ("synchronous", 2), ("foreign_keys", 1)])
def test_every_connection_has_the_pragmas_that_the_promises_rest_on(store, name, value):
    """DEC-002."""

    async def submitted():
        return await store.submit(partial(pragma, name=name))

    assert store.read(partial(pragma, name=name)) == value
    assert store.write(partial(pragma, name=name)) == value
    assert asyncio.run(submitted()) == value


def test_what_comes_of_an_operation_is_foretold_before_its_commit_and_nothing_of_one_that_fails(store):
    noted = []

    async def play():
        told = WriteOptions(on_precommit=lambda value: noted.append(("foretold", value)))
        failing = store.submit(lambda db: db.execute("meta_set", key="key", value=None), told)
        first = store.submit(partial(pragma, name="foreign_keys"), told)
        failed, value = await asyncio.gather(failing, first, return_exceptions=True)
        noted.append(("done", value))
        return failed

    assert isinstance(asyncio.run(play()), Exception)
    assert noted == [("foretold", 1), ("done", 1)]


def test_a_writer_leaves_checkpoints_to_another_thread(store):
    async def submitted():
        return await store.submit(partial(pragma, name="wal_autocheckpoint"))

    assert asyncio.run(submitted()) == 0


def test_every_checkpoint_leaves_a_head_that_follows_the_one_before(store, path):
    """Else a scheduler would take its own file for another one."""
    connections = [connect(path) for _ in range(3)]
    heads = [read_head(path)]
    mark = mark_database(path)
    for step in range(60):
        connection = connections[step % 3]
        connection.execute(f"CREATE TABLE extra{step} (x); INSERT INTO extra{step} VALUES (zeroblob(9000))").fetchall()
        connection.execute("DROP TABLE extra0" if step == 9 else "SELECT 1").fetchall()
        if step % 4 == 0:
            connections[(step + 1) % 3].wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            heads.append(read_head(path))
    connections[0].execute("VACUUM").fetchall()
    connections[1].wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    heads.append(read_head(path))
    for earlier, later in pairwise(heads):
        assert later.follows(earlier, marks=(heads[0].mark, mark))
    assert heads[-1].changes > heads[0].changes
    assert heads[-1].mark == mark


def test_a_clean_end_leaves_no_log(store, path):
    add_job(store)
    mark_database(path)
    add_job(store, "another")
    store.close()
    assert not path.with_name("rota.db-wal").exists()


class Batch:
    """Operations that the writer thread takes as one: the first holds it until all are submitted."""

    def __init__(self, store):
        self.store = store
        self.held, self.go = threading.Event(), threading.Event()

    def hold(self, db):
        self.held.set()
        return self.go.wait(LONGEST_WAIT)

    async def of(self, operations, *, abandoned=()):
        first = self.store.submit(self.hold)
        await asyncio.to_thread(self.held.wait, LONGEST_WAIT)
        for operation in abandoned:
            self.store.submit(operation).cancel()
        futures = [self.store.submit(operation) for operation in operations]
        self.go.set()
        await first
        return futures


def test_submitted_operations_share_a_commit_and_none_is_acknowledged_before_it(store, beside):
    """RISK-1."""
    job = add_job(store)
    reached, release = threading.Event(), threading.Event()

    def hold():
        reached.set()
        return not release.wait(LONGEST_WAIT)

    def insert_last(db):
        insert_run(db, job)
        db._connection.set_commit_hook(hold)

    async def play():
        inserts = [partial(insert_run, job=job) for _ in range(20)]
        futures = await Batch(store).of([*inserts, insert_last])
        await asyncio.to_thread(reached.wait, LONGEST_WAIT)  # the commit has begun; what was told before has come
        assert not any(future.done() for future in futures)
        assert run_count(beside) == 0
        visible = []
        for future in futures:
            future.add_done_callback(lambda _: visible.append(run_count(beside)))
        release.set()
        await asyncio.gather(*futures)
        assert visible == [21] * 21

    try:
        asyncio.run(play())
    finally:
        release.set()


def fail(db, job):
    insert_run(db, job)
    raise LookupError("refused")


def test_one_refused_operation_harms_no_other_of_its_batch(store, beside):
    job = add_job(store)

    async def play():
        operations = [partial(fail if number % 3 == 0 else insert_run, job=job) for number in range(9)]
        return await asyncio.gather(*await Batch(store).of(operations), return_exceptions=True)

    results = asyncio.run(play())
    assert [isinstance(result, LookupError) for result in results] == [number % 3 == 0 for number in range(9)]
    stored = {run.id for run in store.read(lambda db: run_queries.newest_runs(db, job.id, limit=99))}
    assert stored == {result.id for result in results if not isinstance(result, LookupError)}
    assert store.read(lambda db: jobs.job_by_id(db, job.id)).run_number == 6


def test_an_error_about_the_file_is_translated_inside_a_batch_too(store, path):
    def damaged(db):
        raise apsw.CorruptError("malformed")

    async def play():
        return await asyncio.gather(*await Batch(store).of([jobs.job_names, damaged]), return_exceptions=True)

    names, error = asyncio.run(play())
    assert names == []
    assert isinstance(error, DatabaseCorrupt)
    assert str(path) in str(error)


def test_a_refused_operation_that_is_alone_leaves_nothing(store, beside):
    job = add_job(store)

    async def play():
        with pytest.raises(LookupError):
            await store.submit(partial(fail, job=job))
        return await store.submit(partial(insert_run, job=job))

    assert asyncio.run(play()).number == 1
    assert run_count(beside) == 1


def test_an_operation_whose_caller_no_longer_waits_is_still_written(store, beside):
    job = add_job(store)

    async def play():
        insert = partial(insert_run, job=job)
        await asyncio.gather(*await Batch(store).of([insert], abandoned=[insert]))

    asyncio.run(play())
    assert run_count(beside) == 2


def test_closing_finishes_what_was_submitted(store, beside):
    job = add_job(store)

    async def play():
        futures = [store.submit(partial(insert_run, job=job)) for _ in range(5)]
        store.close()
        return await asyncio.gather(*futures)

    assert len(asyncio.run(play())) == 5
    assert run_count(beside) == 5


def test_a_store_serves_one_event_loop_after_another(store):
    job = add_job(store)

    async def insert():
        return await asyncio.wait_for(store.submit(partial(insert_run, job=job)), LONGEST_WAIT)

    assert [asyncio.run(insert()).number for _ in range(3)] == [1, 2, 3]


def test_a_writer_that_cannot_open_the_database_says_so_to_every_caller(store, path):
    path.rename(path.with_name("elsewhere.db"))

    async def submit():
        futures = [store.submit(lambda db: None) for _ in range(3)]
        return await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), LONGEST_WAIT)

    errors = asyncio.run(submit())
    assert [type(error) for error in errors] == [StateError] * 3
    assert all(str(path) in str(error) for error in errors)


def test_a_writer_goes_on_when_the_database_is_back(store, path):
    path.rename(path.with_name("elsewhere.db"))

    async def submit():
        return await asyncio.wait_for(store.submit(jobs.job_names), LONGEST_WAIT)

    with pytest.raises(StateError):
        asyncio.run(submit())
    path.with_name("elsewhere.db").rename(path)
    assert asyncio.run(submit()) == []


def bound(db, pages):
    """Let the database of this connection grow by so many pages: what a full disk looks like from within."""
    db._connection.execute(f"PRAGMA max_page_count = {pragma(db, 'page_count') + pages}").fetchall()


def test_on_a_full_disk_what_was_acknowledged_is_stored_and_the_rest_is_refused(store, path):
    job = add_job(store)

    async def play():
        await store.submit(partial(bound, pages=60))
        results = []
        for _ in range(5):
            operations = [partial(insert_run, job=job, params=LARGE) for _ in range(6)]
            results += await asyncio.gather(*await Batch(store).of(operations), return_exceptions=True)
        return results

    results = asyncio.run(play())
    refused = [result for result in results if isinstance(result, Exception)]
    assert 0 < len(refused) < len(results)
    assert {type(error) for error in refused} == {StorageFull}
    assert all(str(path) in str(error) and error.hint for error in refused)
    stored = {run.id for run in store.read(lambda db: run_queries.newest_runs(db, job.id, limit=99))}
    assert stored == {result.id for result in results if not isinstance(result, Exception)}


def test_a_small_write_of_the_same_batch_survives_the_one_that_found_no_room(store):
    job = add_job(store)

    async def play():
        await store.submit(partial(bound, pages=2))
        small = partial(jobs.save_job_state, job_id=job.id, state={"a": 1})
        large = partial(insert_run, job=job, params=LARGE)
        return await asyncio.gather(*await Batch(store).of([small, large]), return_exceptions=True)

    first, second = asyncio.run(play())
    assert isinstance(second, StorageFull)
    kept = store.read(lambda db: jobs.job_state(db, job.id))
    assert kept == ({} if isinstance(first, Exception) else {"a": 1})


def test_after_a_full_disk_writing_goes_on_by_itself(store):
    job = add_job(store)

    async def play():
        await store.submit(partial(bound, pages=1))
        with pytest.raises(StorageFull):
            await store.submit(partial(insert_run, job=job, params=LARGE))
        await store.submit(partial(bound, pages=100))
        return await store.submit(partial(insert_run, job=job, params=LARGE))

    assert asyncio.run(play()).number == 1


def test_an_inline_write_on_a_full_disk_is_refused_by_name(store, path):
    job = add_job(store)
    store.write(partial(bound, pages=1))
    with pytest.raises(StorageFull, match=str(path)):
        store.write(partial(insert_run, job=job, params=LARGE))
    assert store.read(lambda db: run_queries.newest_runs(db, job.id, limit=9)) == []


FILE_SIZE_LIMIT = """
import resource, sys
from pathlib import Path
from rota.model.errors import StorageFull
from rota.store.migrate import open_store
sys.path.insert(0, sys.argv[2])
from making import NOW, add_job, insert_run
store = open_store(Path(sys.argv[1]), now=NOW)
job = add_job(store)
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
stored = 0
try:
    while stored < 100:
        store.write(lambda db: insert_run(db, job, params={"text": "x" * 20_000}))
        stored += 1
except StorageFull as error:
    assert sys.argv[1] in str(error) and error.hint, error
    print(stored, flush=True)
"""


def test_a_write_that_the_kernel_refuses_is_a_full_disk_and_what_was_stored_stays(path, request):
    ended = subprocess.run(
        [sys.executable, "-c", FILE_SIZE_LIMIT, str(path), str(request.path.parent)],
        capture_output=True,
        text=True,
        timeout=LONGEST_WAIT,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    connection = connect(path)
    assert 0 < run_count(connection) == int(ended.stdout)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


COUNT = """
import sys
from pathlib import Path
from rota.store.migrate import open_store
sys.path.insert(0, sys.argv[2])
from making import NOW
from rota.store.tables import jobs
store = open_store(Path(sys.argv[1]), now=NOW)
job = store.read(jobs.all_jobs)[0]
sys.stdin.readline()
print(*[store.write(lambda db: jobs.next_number(db, job.id)) for _ in range(150)])
"""


def test_two_processes_that_write_at_once_both_get_through(store, path, request):
    """CON-001, RISK-1."""
    job = add_job(store)
    argv = [sys.executable, "-c", COUNT, str(path), str(request.path.parent)]
    writers = [subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    counted = [number for writer in writers for number in writer.communicate(timeout=LONGEST_WAIT)[0].split()]
    assert [writer.returncode for writer in writers] == [0, 0]
    assert sorted(map(int, counted)) == list(range(1, 301))
    assert store.read(lambda db: jobs.job_by_id(db, job.id)).run_number == 300


def test_a_write_waits_for_another_process_to_let_go(store, beside):
    job = add_job(store)
    beside.execute("BEGIN IMMEDIATE")
    waited = threading.Event()

    def write():
        waited.set()
        return store.write(partial(insert_run, job=job))

    writer = threading.Thread(target=write)
    writer.start()
    waited.wait(LONGEST_WAIT)
    assert run_count(beside) == 0
    beside.execute("COMMIT")
    writer.join(LONGEST_WAIT)
    assert run_count(beside) == 1


def test_a_database_that_is_held_for_seconds_is_busy_by_name(store, beside, path):
    """RISK-1."""
    beside.execute("BEGIN IMMEDIATE")
    with pytest.raises(DatabaseBusy, match=str(path)) as refused:
        store.write(jobs.all_jobs)
    assert refused.value.hint
    assert store.read(jobs.all_jobs) == [], "readers are never blocked"


@pytest.mark.parametrize("late", [0.0, 0.0006, 0.1], ids=str)
def test_a_lock_is_waited_for_five_seconds_however_late_the_sleeps_end(late):
    elapsed = [100.0]

    def sleep(seconds):
        elapsed.append(elapsed[-1] + seconds + late)

    wait = LockWait(monotonic=lambda: elapsed[-1], sleep=sleep)
    for _ in range(2):  # the limit counts anew for each statement
        began = elapsed[-1]
        attempts = 0
        while wait(attempts):
            attempts += 1
        assert 5 <= elapsed[-1] - began < 5.3


def test_a_long_log_is_moved_into_the_database_off_the_write_path(store, beside, path):
    job = add_job(store)
    size = path.stat().st_size

    async def play():
        for _ in range(20):
            await asyncio.gather(*[store.submit(partial(insert_run, job=job, params=LARGE)) for _ in range(50)])

    asyncio.run(play())
    store.close()
    assert run_count(beside) == 1000
    assert path.stat().st_size > size + 8_000_000, "the connection beside keeps the last close from doing it"


def test_reading_twice_on_one_thread_uses_one_connection(store):
    assert store.read(id_of) == store.write(id_of)


def id_of(db):
    return id(db._connection)


def test_apsw_carries_a_sqlite_without_the_log_reset_bug():
    assert tuple(map(int, apsw.sqlite_lib_version().split("."))) >= (3, 51, 3)
