-- name: audit_groups
-- Every group with its members counted anew: at each place the newest attempt stands.
SELECT run_group.name, run_group.number, run_group.status, run_group.size, run_group.cancel_requested_at IS NOT NULL,
    run_group.finished_at IS NOT NULL, run_group.run_id IS NOT NULL, run.status, run.reason,
    count(DISTINCT member.place), max(coalesce(member.place, 0)),
    sum(member.finished_at IS NULL AND member.id IS NOT NULL), sum(member.status = 'COMPLETED'), sum(member.status = 'FAILED'),
    sum(member.status = 'CANCELLED')
FROM run_group LEFT JOIN run ON run.id = run_group.run_id
LEFT JOIN run member ON member.group_id = run_group.id AND NOT EXISTS (
    SELECT 1 FROM run later WHERE later.group_id = member.group_id AND later.place = member.place AND later.attempt > member.attempt)
WHERE :jobs IS NULL OR run.job_id IN (SELECT value FROM json_each(:jobs))
GROUP BY run_group.id

-- name: audit_count
SELECT count(*) FROM run WHERE :jobs IS NULL OR job_id IN (SELECT value FROM json_each(:jobs))

-- name: audit_groupless
SELECT job.name, run.number FROM run JOIN job ON job.id = run.job_id
WHERE run.lane_id = 0 AND run.status = 'RUNNING' AND NOT EXISTS (SELECT 1 FROM run_group WHERE run_group.run_id = run.id)
  AND (:jobs IS NULL OR run.job_id IN (SELECT value FROM json_each(:jobs)))
LIMIT :limit

-- name: audit_jobs
SELECT id, name, version, enabled, created_at, retired_at, used_up_at, next_for, next_at, fire_number, ledger_from, paused_at, held_for,
    mode, booted, provisional_at
FROM job WHERE name > :after AND (:jobs IS NULL OR id IN (SELECT value FROM json_each(:jobs))) ORDER BY name LIMIT :limit

-- name: audit_lanes
-- Each lane draws what its key says.
SELECT lane.id, lane.key, coalesce(group_concat(lane_pool.pool || '=' || lane_pool.cost, ',' ORDER BY lane_pool.pool), '') AS drawn
FROM lane LEFT JOIN lane_pool ON lane_pool.lane_id = lane.id
GROUP BY lane.id HAVING drawn <> CASE lane.id WHEN 0 THEN '' ELSE lane.key END

-- name: audit_lanes_used
-- An unfinished run is in the lane of its definition; runs of groups are in lane 0.
SELECT * FROM (
    SELECT job.name, min(run.number) AS number, CASE run.lane_id WHEN 0 THEN 'groups' ELSE lane.key END AS found,
        CASE job_version.spec ->> '$.work.kind' WHEN 'group' THEN 'groups' ELSE (
            SELECT coalesce(group_concat((draw.value ->> 'pool') || '=' || (draw.value ->> 'cost'), ',' ORDER BY draw.value ->> 'pool'), '')
            FROM json_each(job_version.spec, '$.pools') AS draw) END AS wanted
    FROM run JOIN job ON job.id = run.job_id LEFT JOIN lane ON lane.id = run.lane_id
    JOIN job_version ON job_version.job_id = run.job_id AND job_version.version = run.version
    WHERE run.finished_at IS NULL AND (:jobs IS NULL OR run.job_id IN (SELECT value FROM json_each(:jobs)))
    GROUP BY run.job_id, run.version, run.lane_id
) WHERE found IS NOT wanted LIMIT :limit

-- name: audit_order
-- The rank of a queued run is its priority, or 0 under aging.
SELECT job.name, run.number, run.rank, run.priority FROM run JOIN job ON job.id = run.job_id
WHERE run.status = 'QUEUED' AND run.rank <> CASE WHEN :aging THEN 0 ELSE run.priority END
  AND (:jobs IS NULL OR run.job_id IN (SELECT value FROM json_each(:jobs))) LIMIT :limit

-- name: audit_work_doubled
SELECT source_key, item_id, group_concat(handle, ', ') FROM work_item
WHERE state = 'held' GROUP BY source_key, item_id HAVING count(*) > 1 LIMIT :limit

-- name: audit_states
SELECT * FROM (
    SELECT job.name, run.number, run.status, run.reason, CASE
        WHEN run.status NOT IN ('QUEUED', 'DISPATCHED', 'RUNNING', 'COMPLETED', 'FAILED', 'SKIPPED', 'CANCELLED') THEN 'which is no status'
        WHEN (run.status IN ('COMPLETED', 'FAILED', 'SKIPPED', 'CANCELLED')) <> (run.finished_at IS NOT NULL) THEN 'which does not fit its finish time'
        WHEN (run.status IN ('FAILED', 'SKIPPED', 'CANCELLED')) <> (run.reason IS NOT NULL) THEN 'which must have a reason exactly if it went wrong'
        WHEN run.reason IS NOT NULL AND run.status || '/' || run.reason NOT IN (SELECT value FROM json_each(:reasons)) THEN 'a reason that this status does not have'
        WHEN run.status IN ('DISPATCHED', 'RUNNING') AND run.lane_id <> 0 AND (run.worker_id IS NULL OR run.slot IS NULL OR run.epoch IS NULL) THEN 'but no worker holds it'
        WHEN run.status = 'QUEUED' AND (run.slot IS NOT NULL OR run.epoch IS NOT NULL OR run.started_at IS NOT NULL) THEN 'but still has a slot or a start'
        WHEN run.status = 'SKIPPED' AND run.started_at IS NOT NULL THEN 'but it started'
        WHEN run.status = 'RUNNING' AND run.started_at IS NULL THEN 'but never started'
        WHEN (run.started_at IS NOT NULL OR run.status = 'DISPATCHED') AND run.lane_id <> 0 AND run.first_dispatched_at IS NULL THEN 'but was never dispatched'
        WHEN run.waiting_for IS NOT NULL AND run.status <> 'QUEUED' THEN 'but waits for ' || run.waiting_for
        WHEN run.not_before IS NOT NULL AND run.waiting_for IS NULL THEN 'but has a time to wait for without a cause'
        WHEN (run.trigger = 'schedule') <> (run.slot_key IS NOT NULL AND run.scheduled_for IS NOT NULL) THEN 'but its trigger ' || run.trigger || ' does not fit its key'
        WHEN run.position <= 0 THEN 'but has no place in the order'
        WHEN job_version.job_id IS NULL THEN 'but its version ' || run.version || ' is not there'
    END AS what
    FROM run JOIN job ON job.id = run.job_id
    LEFT JOIN job_version ON job_version.job_id = run.job_id AND job_version.version = run.version
    WHERE :jobs IS NULL OR run.job_id IN (SELECT value FROM json_each(:jobs))
) WHERE what IS NOT NULL LIMIT :limit

-- name: audit_executions
SELECT * FROM (
    SELECT job.name, run.number, run.status, CASE
        WHEN execution.id IS NULL AND run.started_at IS NULL AND run.status NOT IN ('RUNNING', 'COMPLETED') THEN NULL
        WHEN run.lane_id = 0 AND execution.id IS NULL THEN NULL
        WHEN run.lane_id = 0 THEN 'but is a group''s and has an execution'
        WHEN execution.id IS NULL THEN 'but has no execution'
        WHEN run.started_at IS NULL THEN 'but never started and has an execution'
        WHEN execution.job_id <> run.job_id THEN 'but its execution belongs to another job'
        WHEN execution.started_at <> run.started_at THEN 'but its execution started at another time'
        WHEN execution.finished_at IS NOT run.finished_at THEN 'but its execution finished at another time'
        WHEN execution.finished_at IS NOT NULL AND execution.status IS NOT run.status THEN 'but its execution is ' || coalesce(execution.status, 'without a status')
    END AS what
    FROM run JOIN job ON job.id = run.job_id LEFT JOIN execution ON execution.run_id = run.id
    WHERE :jobs IS NULL OR run.job_id IN (SELECT value FROM json_each(:jobs))
) WHERE what IS NOT NULL LIMIT :limit

-- name: audit_direct
-- Direct calls: an execution without a run, and its process while it is unfinished.
SELECT * FROM (
    SELECT execution.id, job.name, CASE
        WHEN execution.finished_at IS NULL AND direct_hold.execution_id IS NULL THEN 'is unfinished, but no process carries it'
        WHEN execution.finished_at IS NOT NULL AND direct_hold.execution_id IS NOT NULL THEN 'is finished, but a process still carries it'
        WHEN execution.finished_at < execution.started_at - :slack THEN 'finished before it started'
        WHEN execution.version IS NOT NULL AND job_version.job_id IS NULL THEN 'executes version ' || execution.version || ', which is not there'
    END AS what
    FROM execution LEFT JOIN direct_hold ON direct_hold.execution_id = execution.id LEFT JOIN job ON job.id = execution.job_id
    LEFT JOIN job_version ON job_version.job_id = execution.job_id AND job_version.version = execution.version
    WHERE execution.run_id IS NULL AND (:jobs IS NULL OR execution.job_id IN (SELECT value FROM json_each(:jobs)))
) WHERE what IS NOT NULL LIMIT :limit

-- name: audit_doubled_numbers
SELECT job.name, run.number, count(*) FROM run JOIN job ON job.id = run.job_id
WHERE :jobs IS NULL OR run.job_id IN (SELECT value FROM json_each(:jobs))
GROUP BY run.job_id, run.number HAVING count(*) > 1 LIMIT :limit

-- name: audit_doubled_keys
SELECT job.name, run.slot_key, count(*) FROM run JOIN job ON job.id = run.job_id
WHERE run.slot_key IS NOT NULL AND (:jobs IS NULL OR run.job_id IN (SELECT value FROM json_each(:jobs)))
GROUP BY run.job_id, run.slot_key HAVING count(*) > 1 LIMIT :limit

-- name: audit_numbers
SELECT job.name, job.run_number, (SELECT max(run.number) FROM run WHERE run.job_id = job.id) AS highest FROM job
WHERE (:jobs IS NULL OR job.id IN (SELECT value FROM json_each(:jobs))) AND highest > job.run_number LIMIT :limit

-- name: audit_waiting
SELECT job.name, run.number, run.waiting_for FROM run JOIN job ON job.id = run.job_id
WHERE run.waiting_for IS NOT NULL AND (:jobs IS NULL OR run.job_id IN (SELECT value FROM json_each(:jobs))) AND CASE run.waiting_for
    WHEN 'condition' THEN run.not_before IS NULL
    WHEN 'backoff' THEN run.not_before IS NULL OR run.trigger <> 'retry'
    WHEN 'predecessor' THEN CASE WHEN run.group_id IS NOT NULL
        -- The end of another member releases a member, so some member must be active.
        THEN NOT EXISTS (SELECT 1 FROM run other WHERE other.group_id = run.group_id AND other.finished_at IS NULL
            AND other.waiting_for IS NOT 'predecessor')
        ELSE NOT EXISTS (SELECT 1 FROM run first WHERE first.id = run.predecessor_id AND first.job_id = run.job_id AND first.finished_at IS NULL
            AND (SELECT number FROM run root WHERE root.id = coalesce(first.chain_id, first.id)) < run.number) END
    WHEN 'replaced_run' THEN NOT EXISTS (SELECT 1 FROM run first WHERE first.job_id = run.job_id AND first.id < run.id
        AND first.finished_at IS NULL)
    WHEN 'budget' THEN run.not_before IS NULL
    -- A poll comes by its schedule, or is on its way; in a mode without polls only the latter counts.
    WHEN 'poll' THEN NOT EXISTS (SELECT 1 FROM job poll WHERE poll.name = 'rota/poll' AND poll.retired_at IS NULL AND (
        poll.next_at IS NOT NULL OR poll.paused_at IS NOT NULL
        OR EXISTS (SELECT 1 FROM run polling WHERE polling.job_id = poll.id AND polling.finished_at IS NULL)))
    ELSE 1 END
LIMIT :limit

-- name: audit_chains
-- An automatic retry follows a failed run of its chain and repeats it.
SELECT * FROM (
    SELECT job.name, run.number, CASE
        WHEN run.trigger <> 'retry' AND run.group_id IS NULL AND (run.attempt <> 1 OR run.chain_id IS NOT NULL) THEN 'is attempt ' || run.attempt || ', but no automatic retry'
        WHEN run.trigger <> 'retry' THEN NULL
        WHEN failed.id IS NULL THEN 'is an automatic retry of a run that is not there'
        WHEN failed.status <> 'FAILED' THEN 'is an automatic retry of a run that is ' || failed.status
        WHEN run.attempt <> failed.attempt + 1 THEN 'is attempt ' || run.attempt || ' after attempt ' || failed.attempt
        WHEN run.chain_id IS NOT coalesce(failed.chain_id, failed.id) THEN 'belongs to another chain than the run it retries'
        WHEN run.job_id <> failed.job_id OR run.version <> failed.version THEN 'has another definition than the run it retries'
        WHEN run.scheduled_for IS NOT failed.scheduled_for THEN 'is for another instant than the run it retries'
        WHEN run.group_id IS NOT failed.group_id OR run.place IS NOT failed.place THEN 'has another place in its group than the run it retries'
        WHEN run.attempt - coalesce(json_extract(run.decisions, '$.retry.outages'), 0) > json_extract(job_version.spec, '$.retry.max_attempts') THEN 'is attempt ' || run.attempt || ', more than its definition allows'
    END AS what
    FROM run JOIN job ON job.id = run.job_id
    JOIN job_version ON job_version.job_id = run.job_id AND job_version.version = run.version
    LEFT JOIN run failed ON failed.id = run.retry_of
    WHERE :jobs IS NULL OR run.job_id IN (SELECT value FROM json_each(:jobs))
) WHERE what IS NOT NULL LIMIT :limit

-- name: audit_not_retried
-- A failure is retried in the transaction of its end, or is the last of its chain. Pruned runs are ignored.
-- An outage uses up no attempt, and is retried :outages times.
SELECT job.name, run.number, run.attempt, json_extract(job_version.spec, '$.retry.max_attempts') AS most
FROM run JOIN job ON job.id = run.job_id
JOIN job_version ON job_version.job_id = run.job_id AND job_version.version = run.version
WHERE run.status = 'FAILED' AND run.reason NOT IN ('unkillable', 'members_failed')
  AND CASE WHEN run.reason = 'outage' THEN coalesce(json_extract(run.decisions, '$.retry.outages'), 0) < :outages ELSE run.attempt - coalesce(json_extract(run.decisions, '$.retry.outages'), 0) < most END
  AND run.cancel_requested_at IS NULL AND json_extract(run.decisions, '$.one_attempt') IS NULL AND coalesce(run.scheduled_for, run.created_at) >= job.ledger_from
  AND (:jobs IS NULL OR run.job_id IN (SELECT value FROM json_each(:jobs)))
  AND NOT EXISTS (SELECT 1 FROM run next WHERE next.retry_of = run.id AND next.trigger = 'retry')
LIMIT :limit

-- name: audit_times
SELECT job.name, run.number, run.created_at, run.first_dispatched_at, run.started_at, run.finished_at
FROM run JOIN job ON job.id = run.job_id
WHERE (:jobs IS NULL OR run.job_id IN (SELECT value FROM json_each(:jobs))) AND (
    run.created_at > coalesce(run.first_dispatched_at, run.finished_at) + :slack
    OR run.first_dispatched_at > coalesce(run.started_at, run.finished_at) + :slack
    OR run.started_at > run.finished_at + :slack)
LIMIT :limit

-- name: audit_rows
-- The status is that of the chain: of its last run, which may be a retry.
SELECT number, version, slot_key, scheduled_for, covers_to, count,
    coalesce((SELECT last.status FROM run last WHERE last.chain_id = run.id ORDER BY last.attempt DESC LIMIT 1), status), reason,
    created_at, json_extract(decisions, '$.made_up') = 'resume'
FROM run
WHERE job_id = :job_id AND number > :after AND trigger = 'schedule' AND coalesce(covers_to, scheduled_for) >= :since
ORDER BY number LIMIT :limit

-- name: audit_counters
-- Counted anew by one look at all runs for each worker: grouping them would sort them all in memory.
SELECT status, worker_id, sum(kept), sum(counted) FROM (
    SELECT status, worker_id, count AS kept, 0 AS counted FROM counter
    UNION ALL
    SELECT found.key, whose.id, 0, found.value
    FROM (SELECT '' AS id UNION ALL SELECT id FROM worker) AS whose, json_each((
        SELECT json_object(
            'QUEUED', count(*) FILTER (WHERE status = 'QUEUED'),
            'RUNNING', count(*) FILTER (WHERE status IN ('DISPATCHED', 'RUNNING')),
            'COMPLETED', count(*) FILTER (WHERE status = 'COMPLETED'),
            'FAILED', count(*) FILTER (WHERE status = 'FAILED'),
            'SKIPPED', count(*) FILTER (WHERE status = 'SKIPPED'),
            'CANCELLED', count(*) FILTER (WHERE status = 'CANCELLED'))
        FROM run WHERE coalesce(worker_id, '') = whose.id)) AS found)
GROUP BY status, worker_id HAVING sum(kept) <> sum(counted)

-- name: audit_integrity
SELECT iif(integrity_check = 'ok', 'ok', 'violation'), integrity_check FROM pragma_integrity_check LIMIT :limit

-- name: audit_foreign_keys
SELECT "table", parent, count(*) FROM pragma_foreign_key_check GROUP BY "table", parent

-- name: audit_untold
-- Ended runs without a due delivery to a target, since the last change of job and targets.
SELECT ended.job, ended.number, ended.target, ended.event
FROM (
    SELECT told.job, run.id, run.job_id, run.number, run.finished_at, told.since,
           told.target ->> '$.name' AS target, told.target -> '$.on' AS events, told.target ->> '$.remind' AS remind,
           CASE run.status
               WHEN 'COMPLETED' THEN 'completed'
               WHEN 'CANCELLED' THEN 'cancelled'
               WHEN 'FAILED' THEN 'failed'
               ELSE iif(run.reason = 'missed' AND instr(told.target ->> '$.on', '"missed"'), 'missed', 'skipped')
           END AS event
    FROM (
        SELECT job.id AS job_id, job.name AS job, max(job.updated_at, :since) AS since, own.value AS target
        FROM notifying JOIN job ON job.id = notifying.job_id
        JOIN job_version AS version ON version.job_id = job.id AND version.version = job.version
        JOIN json_each(version.spec, '$.notify_own') AS own
        UNION ALL
        SELECT job.id, job.name, max(job.updated_at, :since, :targets_at), declared.value
        FROM notifying JOIN job ON job.id = notifying.job_id
        JOIN job_version AS version ON version.job_id = job.id AND version.version = job.version
        JOIN json_each(version.spec, '$.notify') AS named
        JOIN json_each(:targets) AS declared ON declared.key = named.value
    ) AS told
    JOIN run ON run.job_id = told.job_id AND run.status IN ('COMPLETED', 'FAILED', 'SKIPPED', 'CANCELLED')
        AND run.finished_at > told.since
    WHERE :jobs IS NULL OR told.job_id IN (SELECT value FROM json_each(:jobs))
) AS ended
WHERE ended.event IN (SELECT value FROM json_each(ended.events))
  AND NOT EXISTS (SELECT 1 FROM run AS later WHERE later.retry_of = ended.id AND later.trigger = 'retry')
  AND NOT EXISTS (SELECT 1 FROM delivery WHERE run_id = ended.id AND event = ended.event AND target = ended.target)
  -- failures in a row have one delivery for each interval of `remind`
  AND (ended.event <> 'failed' OR ended.remind IS NULL OR (
      ended.finished_at > ended.since + ended.remind
      AND NOT EXISTS (
          SELECT 1 FROM delivery JOIN run AS earlier ON earlier.id = delivery.run_id
          WHERE delivery.event = 'failed' AND delivery.target = ended.target AND earlier.job_id = ended.job_id
            AND delivery.created_at > ended.finished_at - ended.remind AND earlier.finished_at <= ended.finished_at + :slack
      )
  ))
LIMIT :limit

-- name: audit_known
-- The tags of processes: runs by number, direct calls (number null) by the identifier of their execution.
SELECT run.id, job.name, run.number, run.status FROM run JOIN job ON job.id = run.job_id
WHERE run.id IN (SELECT value FROM json_each(:ids))
UNION ALL
SELECT execution.id, job.name, NULL, coalesce(execution.status, 'RUNNING')
FROM execution LEFT JOIN job ON job.id = execution.job_id
WHERE execution.id IN (SELECT value FROM json_each(:ids)) AND execution.run_id IS NULL
UNION ALL
SELECT direct_wait.id, job.name, NULL, 'DISPATCHED' FROM direct_wait LEFT JOIN job ON job.id = direct_wait.job_id
WHERE direct_wait.id IN (SELECT value FROM json_each(:ids)) AND direct_wait.slot IS NOT NULL
