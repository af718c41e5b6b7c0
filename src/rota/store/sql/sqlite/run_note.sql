UPDATE run SET decisions = json_patch(decisions, :decisions) WHERE id = :id AND finished_at IS NULL
