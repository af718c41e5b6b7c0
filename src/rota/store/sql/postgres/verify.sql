-- name: audit_groups
-- Every group with its members counted anew: at each place the newest attempt stands.
SELECT run_group.name, run_group.number, run_group.status, run_group.size, run_group.cancel_requested_at IS NOT NULL,
    run_group.finished_at IS NOT NULL, run_group.run_id IS NOT NULL,
    CASE coalesce(own_end.status, own_live.state) WHEN 4 THEN 'COMPLETED' WHEN 5 THEN 'FAILED' WHEN 6 THEN 'SKIPPED' WHEN 7 THEN 'CANCELLED'
        WHEN 3 THEN 'RUNNING' WHEN 0 THEN 'QUEUED' END, own_end.reason,
    count(DISTINCT member.place), max(coalesce(member.place, 0)),
    count(member.seq) FILTER (WHERE ended.run IS NULL), count(*) FILTER (WHERE ended.status = 4),
    count(*) FILTER (WHERE ended.status = 5), count(*) FILTER (WHERE ended.status = 7)
FROM run_group LEFT JOIN run AS own ON own.id = run_group.run_id LEFT JOIN live AS own_live ON own_live.run = own.seq
LEFT JOIN ended AS own_end ON own_end.run = own.seq
LEFT JOIN run member ON member.group_id = run_group.id AND NOT EXISTS (
    SELECT 1 FROM run later WHERE later.group_id = member.group_id AND later.place = member.place AND later.attempt > member.attempt)
LEFT JOIN ended ON ended.run = member.seq
WHERE CAST(:jobs AS text) IS NULL OR own.job IN (SELECT seq FROM job WHERE id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json)))))
GROUP BY run_group.id, own_end.status, own_live.state, own_end.reason

-- name: audit_count
SELECT count(*) FROM run WHERE CAST(:jobs AS text) IS NULL OR job IN (SELECT seq FROM job WHERE id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json)))))

-- name: audit_groupless
SELECT job.name, run.number FROM live JOIN run ON run.seq = live.run JOIN job ON job.seq = run.job
WHERE live.lane_id = 0 AND live.state = 3 AND NOT EXISTS (SELECT 1 FROM run_group WHERE run_group.run_id = run.id)
  AND (CAST(:jobs AS text) IS NULL OR job.id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json)))))
LIMIT :limit

-- name: audit_jobs
SELECT id, name, version, enabled, created_at, retired_at, used_up_at, next_for, next_at, fire_number, ledger_from, paused_at, held_for,
    mode, booted, provisional_at
FROM job WHERE name > :after AND (CAST(:jobs AS text) IS NULL OR id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json))))) ORDER BY name LIMIT :limit

-- name: audit_lanes
-- Each lane draws what its key says.
SELECT id, key, drawn FROM (
    SELECT lane.id, lane.key, coalesce(string_agg(lane_pool.pool || '=' || lane_pool.cost, ',' ORDER BY lane_pool.pool), '') AS drawn
    FROM lane LEFT JOIN lane_pool ON lane_pool.lane_id = lane.id GROUP BY lane.id) AS found
WHERE drawn <> CASE id WHEN 0 THEN '' ELSE key END

-- name: audit_lanes_used
-- An unfinished run is in the lane of its definition; runs of groups are in lane 0.
SELECT * FROM (
    SELECT job.name, used.number, CASE used.lane_id WHEN 0 THEN 'groups' ELSE lane.key END AS found,
        CASE CAST(job_version.spec AS json) #>> '{work,kind}' WHEN 'group' THEN 'groups' ELSE (
            SELECT coalesce(string_agg((draw ->> 'pool') || '=' || (draw ->> 'cost'), ',' ORDER BY draw ->> 'pool' COLLATE "C"), '')
            FROM json_array_elements(CAST(job_version.spec AS json) -> 'pools') AS draw) END AS wanted
    FROM (
        SELECT job.id AS job_id, run.version, run.lane_id, min(run.number) AS number FROM live JOIN run ON run.seq = live.run JOIN job ON job.seq = run.job
        WHERE (CAST(:jobs AS text) IS NULL OR job.id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json)))))
        GROUP BY job.id, run.version, run.lane_id) AS used
    JOIN job ON job.id = used.job_id LEFT JOIN lane ON lane.id = used.lane_id
    JOIN job_version ON job_version.job_id = used.job_id AND job_version.version = used.version
) AS compared WHERE found IS DISTINCT FROM wanted LIMIT :limit

-- name: audit_order
-- The rank of a queued run is its priority, or 0 under aging.
SELECT job.name, run.number, live.rank, run.priority FROM live JOIN run ON run.seq = live.run JOIN job ON job.seq = run.job
WHERE live.state < 2 AND live.rank <> CASE CAST(:aging AS bigint) WHEN 1 THEN 0 ELSE run.priority END
  AND (CAST(:jobs AS text) IS NULL OR job.id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json))))) LIMIT :limit

-- name: audit_work_doubled
SELECT source_key, item_id, string_agg(handle, ', ') FROM work_item
WHERE state = 'held' GROUP BY source_key, item_id HAVING count(*) > 1 LIMIT :limit

-- name: audit_states
SELECT * FROM (
    SELECT job.name, run.number, CASE coalesce(ended.status, live.state) WHEN 4 THEN 'COMPLETED' WHEN 5 THEN 'FAILED' WHEN 6 THEN 'SKIPPED' WHEN 7 THEN 'CANCELLED'
        WHEN 3 THEN 'RUNNING' WHEN 2 THEN 'DISPATCHED' ELSE 'QUEUED' END AS status, ended.reason, CASE
        WHEN live.run IS NULL AND ended.run IS NULL THEN 'but has neither a state nor an end'
        WHEN live.run IS NOT NULL AND ended.run IS NOT NULL THEN 'but is unfinished as well'
        WHEN ended.status <> 4 AND ended.reason IS NULL OR ended.status = 4 AND ended.reason IS NOT NULL THEN 'which must have a reason exactly if it went wrong'
        WHEN ended.reason IS NOT NULL AND CASE coalesce(ended.status, live.state) WHEN 4 THEN 'COMPLETED' WHEN 5 THEN 'FAILED' WHEN 6 THEN 'SKIPPED' WHEN 7 THEN 'CANCELLED'
        WHEN 3 THEN 'RUNNING' WHEN 2 THEN 'DISPATCHED' ELSE 'QUEUED' END || '/' || ended.reason NOT IN (SELECT json_array_elements_text(CAST(:reasons AS json))) THEN 'a reason that this status does not have'
        WHEN live.state >= 2 AND live.lane_id <> 0 AND (live.worker IS NULL OR live.slot IS NULL OR live.epoch IS NULL) THEN 'but no worker holds it'
        WHEN live.state < 2 AND (live.slot IS NOT NULL OR live.epoch IS NOT NULL OR live.started_at IS NOT NULL) THEN 'but still has a slot or a start'
        WHEN live.waiting_for IS NOT NULL AND live.state <> 0 THEN 'but waits for ' || live.waiting_for
        WHEN live.not_before IS NOT NULL AND live.waiting_for IS NULL THEN 'but has a time to wait for without a cause'
        WHEN live.position <= 0 THEN 'but has no place in the order'
        WHEN (run.trigger = 'schedule') <> (run.slot_key IS NOT NULL AND run.scheduled_for IS NOT NULL) THEN 'but its trigger ' || run.trigger || ' does not fit its key'
        WHEN job_version.job_id IS NULL THEN 'but its version ' || run.version || ' is not there'
    END AS what
    FROM run JOIN job ON job.seq = run.job LEFT JOIN live ON live.run = run.seq LEFT JOIN ended ON ended.run = run.seq
    LEFT JOIN job_version ON job_version.job_id = job.id AND job_version.version = run.version
    WHERE CAST(:jobs AS text) IS NULL OR job.id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json))))
) AS found WHERE what IS NOT NULL LIMIT :limit

-- name: audit_executions
SELECT * FROM (
    SELECT job.name, run.number, CASE coalesce(ended.status, live.state) WHEN 4 THEN 'COMPLETED' WHEN 5 THEN 'FAILED' WHEN 6 THEN 'SKIPPED' WHEN 7 THEN 'CANCELLED'
        WHEN 3 THEN 'RUNNING' WHEN 2 THEN 'DISPATCHED' ELSE 'QUEUED' END AS status, CASE
        WHEN coalesce(ended.job, live.job) <> run.job THEN 'but its execution belongs to another job'
        WHEN ended.status = 6 AND ended.started_at IS NOT NULL THEN 'but it started'
        WHEN (ended.status = 4 OR live.state = 3) AND coalesce(ended.started_at, live.started_at) IS NULL THEN 'but never started'
        WHEN run.lane_id = 0 AND coalesce(ended.slot, live.slot) IS NOT NULL THEN 'but is a group''s and has an execution'
        WHEN run.lane_id = 0 THEN NULL
        WHEN coalesce(ended.started_at, live.started_at) IS NOT NULL AND (coalesce(ended.slot, live.slot) IS NULL OR coalesce(ended.epoch, live.epoch) IS NULL)
            THEN 'but has no execution'
        WHEN coalesce(ended.started_at, live.started_at) IS NOT NULL AND coalesce(ended.first_dispatched_at, live.first_dispatched_at) IS NULL
            THEN 'but was never dispatched'
    END AS what
    FROM run JOIN job ON job.seq = run.job LEFT JOIN live ON live.run = run.seq LEFT JOIN ended ON ended.run = run.seq
    WHERE CAST(:jobs AS text) IS NULL OR job.id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json))))
) AS found WHERE what IS NOT NULL LIMIT :limit

-- name: audit_direct
-- Direct calls, and their process while they are unfinished.
SELECT * FROM (
    SELECT call.id, job.name, CASE
        WHEN call.finished_at IS NULL AND direct_hold.execution_id IS NULL THEN 'is unfinished, but no process carries it'
        WHEN call.finished_at IS NOT NULL AND direct_hold.execution_id IS NOT NULL THEN 'is finished, but a process still carries it'
        WHEN call.finished_at < call.started_at - :slack THEN 'finished before it started'
        WHEN call.version IS NOT NULL AND job_version.job_id IS NULL THEN 'executes version ' || call.version || ', which is not there'
    END AS what
    FROM call LEFT JOIN direct_hold ON direct_hold.execution_id = call.id LEFT JOIN job ON job.id = call.job_id
    LEFT JOIN job_version ON job_version.job_id = call.job_id AND job_version.version = call.version
    WHERE (CAST(:jobs AS text) IS NULL OR call.job_id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json)))))
) AS found WHERE what IS NOT NULL LIMIT :limit

-- name: audit_doubled_numbers
SELECT job.name, run.number, count(*) FROM run JOIN job ON job.seq = run.job
WHERE CAST(:jobs AS text) IS NULL OR job.id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json))))
GROUP BY job.name, run.number HAVING count(*) > 1 LIMIT :limit

-- name: audit_doubled_keys
SELECT job.name, run.slot_key, count(*) FROM run JOIN job ON job.seq = run.job
WHERE run.slot_key IS NOT NULL AND (CAST(:jobs AS text) IS NULL OR job.id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json)))))
GROUP BY job.name, run.slot_key HAVING count(*) > 1 LIMIT :limit

-- name: audit_numbers
SELECT name, run_number, highest FROM (
    SELECT job.name, job.run_number, (SELECT max(run.number) FROM run WHERE run.job = job.seq) AS highest FROM job
    WHERE CAST(:jobs AS text) IS NULL OR job.id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json))))) AS found
WHERE highest > run_number LIMIT :limit

-- name: audit_waiting
SELECT job.name, run.number, live.waiting_for FROM live JOIN run ON run.seq = live.run JOIN job ON job.seq = run.job
WHERE live.state = 0 AND (CAST(:jobs AS text) IS NULL OR job.id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json))))) AND CASE live.waiting_for
    WHEN 'condition' THEN live.not_before IS NULL
    WHEN 'backoff' THEN live.not_before IS NULL OR run.trigger <> 'retry'
    WHEN 'predecessor' THEN CASE WHEN run.group_id IS NOT NULL
        -- The end of another member releases a member, so some member must be active.
        THEN NOT EXISTS (SELECT 1 FROM run other JOIN live AS active ON active.run = other.seq
            WHERE other.group_id = run.group_id AND active.waiting_for IS DISTINCT FROM 'predecessor')
        ELSE NOT EXISTS (SELECT 1 FROM run first JOIN live AS active ON active.run = first.seq WHERE first.id = live.predecessor_id AND first.job = run.job
            AND (SELECT number FROM run root WHERE root.id = coalesce(first.chain_id, first.id)) < run.number) END
    WHEN 'replaced_run' THEN NOT EXISTS (SELECT 1 FROM live AS first WHERE first.job = live.job AND first.run < live.run)
    WHEN 'budget' THEN live.not_before IS NULL
    WHEN 'uncertified' THEN live.not_before IS NULL
    WHEN 'answer' THEN NOT EXISTS (SELECT 1 FROM question WHERE question.used_by = run.id AND question.state = 'open')
    -- A poll comes by its schedule, or is on its way; in a mode without polls only the latter counts.
    WHEN 'poll' THEN NOT EXISTS (SELECT 1 FROM job poll WHERE poll.name = 'rota/poll' AND poll.retired_at IS NULL AND (
        poll.next_at IS NOT NULL OR poll.paused_at IS NOT NULL
        OR EXISTS (SELECT 1 FROM live AS polling WHERE polling.job = poll.seq)))
    ELSE true END
LIMIT :limit

-- name: audit_chains
-- An automatic retry follows a failed run of its chain and repeats it.
SELECT * FROM (
    SELECT job.name, run.number, CASE
        WHEN run.trigger NOT IN ('retry', 'answer') AND run.group_id IS NULL AND (run.attempt <> 1 OR run.chain_id IS NOT NULL) THEN 'is attempt ' || run.attempt || ', but no automatic retry'
        WHEN run.trigger NOT IN ('retry', 'answer') THEN NULL
        WHEN run.trigger = 'answer' AND failed.id IS NOT NULL AND failed_end.status IS DISTINCT FROM 4 THEN 'goes on after a run that did not complete'
        WHEN run.trigger = 'answer' AND failed.id IS NOT NULL AND (run.attempt <> failed.attempt + 1 OR run.chain_id IS DISTINCT FROM coalesce(failed.chain_id, failed.id))
            THEN 'belongs to another chain than the run it goes on after'
        WHEN run.trigger = 'answer' THEN NULL
        WHEN failed.id IS NULL THEN 'is an automatic retry of a run that is not there'
        WHEN failed_end.status IS DISTINCT FROM 5 THEN 'is an automatic retry of a run that did not fail'
        WHEN run.attempt <> failed.attempt + 1 THEN 'is attempt ' || run.attempt || ' after attempt ' || failed.attempt
        WHEN run.chain_id IS DISTINCT FROM coalesce(failed.chain_id, failed.id) THEN 'belongs to another chain than the run it retries'
        WHEN run.job <> failed.job OR run.version <> failed.version THEN 'has another definition than the run it retries'
        WHEN run.scheduled_for IS DISTINCT FROM failed.scheduled_for THEN 'is for another instant than the run it retries'
        WHEN run.group_id IS DISTINCT FROM failed.group_id OR run.place IS DISTINCT FROM failed.place THEN 'has another place in its group than the run it retries'
        WHEN run.attempt - coalesce(CAST(CAST(coalesce(ended.decisions, live.decisions) AS json) #>> '{retry,outages}' AS bigint), 0) > CAST(CAST(job_version.spec AS json) #>> '{retry,max_attempts}' AS bigint) THEN 'is attempt ' || run.attempt || ', more than its definition allows'
    END AS what
    FROM run JOIN job ON job.seq = run.job LEFT JOIN live ON live.run = run.seq LEFT JOIN ended ON ended.run = run.seq
    JOIN job_version ON job_version.job_id = job.id AND job_version.version = run.version
    LEFT JOIN run failed ON failed.id = run.retry_of LEFT JOIN ended AS failed_end ON failed_end.run = failed.seq
    WHERE CAST(:jobs AS text) IS NULL OR job.id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json))))
) AS found WHERE what IS NOT NULL LIMIT :limit

-- name: audit_not_retried
-- A failure is retried in the transaction of its end, or is the last of its chain. Pruned runs are ignored.
-- An outage uses up no attempt, and is retried :outages times.
SELECT job.name, run.number, run.attempt, allowed.most
FROM ended JOIN run ON run.seq = ended.run JOIN job ON job.seq = run.job
JOIN job_version ON job_version.job_id = job.id AND job_version.version = run.version
CROSS JOIN LATERAL (SELECT CAST(CAST(job_version.spec AS json) #>> '{retry,max_attempts}' AS bigint) AS most) AS allowed
WHERE ended.status = 5 AND ended.reason NOT IN ('unkillable', 'members_failed')
  AND CASE WHEN ended.reason = 'outage' THEN coalesce(CAST(CAST(ended.decisions AS json) #>> '{retry,outages}' AS bigint), 0) < :outages ELSE run.attempt - coalesce(CAST(CAST(ended.decisions AS json) #>> '{retry,outages}' AS bigint), 0) < allowed.most END
  AND ended.cancel_requested_at IS NULL AND CAST(ended.decisions AS json) ->> 'one_attempt' IS NULL AND coalesce(run.scheduled_for, run.created_at) >= job.ledger_from
  AND (CAST(:jobs AS text) IS NULL OR job.id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json)))))
  AND NOT EXISTS (SELECT 1 FROM run next WHERE next.retry_of = run.id AND next.trigger = 'retry')
LIMIT :limit

-- name: audit_times
SELECT name, number, created_at, dispatched, started, finished_at FROM (
    SELECT job.name, run.number, run.created_at, coalesce(ended.first_dispatched_at, live.first_dispatched_at) AS dispatched,
        coalesce(ended.started_at, live.started_at) AS started, ended.finished_at
    FROM run JOIN job ON job.seq = run.job LEFT JOIN live ON live.run = run.seq LEFT JOIN ended ON ended.run = run.seq
    WHERE CAST(:jobs AS text) IS NULL OR job.id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json))))) AS times
WHERE created_at > coalesce(dispatched, finished_at) + :slack OR dispatched > coalesce(started, finished_at) + :slack
    OR started > finished_at + :slack
LIMIT :limit

-- name: audit_rows
-- The status is that of the chain: of its last run, which may be a retry.
SELECT run.number, run.version, run.slot_key, run.scheduled_for, run.covers_to, run.count,
    coalesce((SELECT last.status FROM run_now last WHERE last.chain_id = run.id ORDER BY last.attempt DESC LIMIT 1), run.status), run.reason,
    run.created_at, CAST(run.decisions AS json) ->> 'made_up' = 'resume'
FROM run_now AS run
WHERE run.job_id = :job_id AND run.number > :after AND run.trigger = 'schedule' AND coalesce(run.covers_to, run.scheduled_for) >= :since
ORDER BY run.number LIMIT :limit

-- name: audit_integrity
-- The state of the server: only an extension could read all pages and indexes.
SELECT kind, text FROM (
    SELECT 'violation' AS kind, 'the index ' || class.relname || ' is not valid' AS text
    FROM pg_index JOIN pg_class AS class ON class.oid = pg_index.indexrelid
    WHERE class.relnamespace = CAST(current_schema() AS regnamespace) AND NOT (pg_index.indisvalid AND pg_index.indisready AND pg_index.indislive)
    UNION ALL
    SELECT 'violation', 'pages of the database failed their checksum ' || checksum_failures || ' times' FROM pg_stat_database
    WHERE datname = current_database() AND checksum_failures > 0
    UNION ALL
    SELECT 'note', 'pages and indexes were not read one by one: PostgreSQL checks the checksum of each page that it reads, `pg_amcheck` looks at all'
    WHERE current_setting('data_checksums') = 'on'
    UNION ALL
    SELECT 'note', 'pages and indexes were not read one by one, and this server keeps no checksums of pages: `pg_amcheck` looks at all'
    WHERE current_setting('data_checksums') <> 'on'
) AS told LIMIT :limit

-- name: audit_foreign_keys
-- PostgreSQL enforces the keys unless its triggers were disabled during a write; the function checks each key again.
SELECT child, parent, CAST(sum(lost) AS bigint) FROM dangling() GROUP BY child, parent ORDER BY child, parent

-- name: audit_untold
-- Ended runs without a due delivery to a target, since the last change of job and targets.
SELECT due.job, due.number, due.target, due.event
FROM (
    SELECT told.job, run.id, run.job AS job_key, run.number, ended.finished_at, told.since,
           told.target ->> 'name' AS target, told.target -> 'on' AS events, CAST(told.target ->> 'remind' AS bigint) AS remind,
           CASE ended.status
               WHEN 4 THEN 'completed'
               WHEN 7 THEN 'cancelled'
               WHEN 5 THEN 'failed'
               ELSE CASE WHEN ended.reason = 'missed' AND strpos(told.target ->> 'on', '"missed"') > 0 THEN 'missed' ELSE 'skipped' END
           END AS event
    FROM (
        SELECT job.id AS job_id, job.seq, job.name AS job, greatest(job.updated_at, :since) AS since, own.value AS target
        FROM notifying JOIN job ON job.id = notifying.job_id
        JOIN job_version AS version ON version.job_id = job.id AND version.version = job.version
        CROSS JOIN json_array_elements(CAST(version.spec AS json) -> 'notify_own') AS own (value)
        UNION ALL
        SELECT job.id, job.seq, job.name, greatest(job.updated_at, :since, :targets_at), declared.value
        FROM notifying JOIN job ON job.id = notifying.job_id
        JOIN job_version AS version ON version.job_id = job.id AND version.version = job.version
        CROSS JOIN json_array_elements_text(CAST(version.spec AS json) -> 'notify') AS named (value)
        JOIN json_each(CAST(:targets AS json)) AS declared ON declared.key = named.value
    ) AS told
    JOIN ended ON ended.job = told.seq AND ended.status IN (4, 5, 6, 7) AND ended.finished_at > told.since
    JOIN run ON run.seq = ended.run
    WHERE CAST(:jobs AS text) IS NULL OR told.job_id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json))))
) AS due
WHERE due.event IN (SELECT json_array_elements_text(due.events))
  AND NOT EXISTS (SELECT 1 FROM run AS later WHERE later.retry_of = due.id AND later.trigger IN ('retry', 'answer'))
  -- the answer of a run tells its end too
  AND NOT EXISTS (SELECT 1 FROM delivery WHERE run_id = due.id AND event IN (due.event, 'result') AND target = due.target)
  -- failures in a row have one delivery for each interval of `remind`
  AND (due.event <> 'failed' OR due.remind IS NULL OR (
      due.finished_at > due.since + due.remind
      AND NOT EXISTS (
          SELECT 1 FROM delivery JOIN run AS earlier ON earlier.id = delivery.run_id JOIN ended AS end_before ON end_before.run = earlier.seq
          WHERE delivery.event = 'failed' AND delivery.target = due.target AND earlier.job = due.job_key
            AND delivery.created_at > due.finished_at - due.remind AND end_before.finished_at <= due.finished_at + :slack
      )
  ))
LIMIT :limit

-- name: audit_known
-- The tags of processes: runs by number, direct calls (number null) by their identifier.
SELECT run.id, run.job, run.number, run.status FROM run_now AS run WHERE run.id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:ids AS json))))
UNION ALL
SELECT call.id, job.name, NULL, coalesce(call.status, 'RUNNING') FROM call LEFT JOIN job ON job.id = call.job_id WHERE call.id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:ids AS json))))
UNION ALL
SELECT direct_wait.id, job.name, NULL, 'DISPATCHED' FROM direct_wait LEFT JOIN job ON job.id = direct_wait.job_id
WHERE direct_wait.id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:ids AS json)))) AND direct_wait.slot IS NOT NULL

-- name: audit_choices
SELECT CAST(CAST(job_version.spec AS json) #> '{work,agent,choices}' AS text) FROM run JOIN job ON job.seq = run.job
JOIN job_version ON job_version.job_id = job.id AND job_version.version = run.version
WHERE job.name = :job AND run.number = :number

-- name: audit_replies
-- A run that a reply or fork started has its text, and only such a run.
SELECT job.name, run.number,
    CASE WHEN reply.run IS NULL THEN 'was started by a ' || run.trigger || ' that is not stored' ELSE 'has the text of a reply, but another trigger' END
FROM run JOIN job ON job.seq = run.job LEFT JOIN reply ON reply.run = run.id
WHERE (run.trigger IN ('reply', 'fork')) <> (reply.run IS NOT NULL) AND (CAST(:jobs AS text) IS NULL OR job.id IN (SELECT json_array_elements_text(CAST(:jobs AS json)))) LIMIT :limit
