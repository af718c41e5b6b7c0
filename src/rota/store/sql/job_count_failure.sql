UPDATE job SET failures = :failures, backing_off_until = :backing_off_until WHERE id = :id
