-- Overlap's line alone: members of a group follow each other by the group's own rules (R-15).
SELECT id, job_id, version, trigger FROM run WHERE predecessor_id = :id AND predecessor_id IS NOT NULL AND waiting_for IS NOT NULL AND group_id IS NULL ORDER BY id
-- when writing: FOR NO KEY UPDATE
