-- Those that another node is letting go at the same time are left to it.
WITH due AS MATERIALIZED (
    SELECT id FROM run WHERE status = 'QUEUED' AND not_before <= :now FOR NO KEY UPDATE SKIP LOCKED)
UPDATE run SET waiting_for = NULL, not_before = NULL WHERE id = ANY (ARRAY(SELECT id FROM due))
