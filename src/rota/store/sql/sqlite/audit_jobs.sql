SELECT id, name, version, enabled, created_at, retired_at, used_up_at, next_for, next_at, fire_number, ledger_from, paused_at, held_for,
    mode, booted, provisional_at
FROM job WHERE name > :after AND (:jobs IS NULL OR id IN (SELECT value FROM json_each(:jobs))) ORDER BY name LIMIT :limit
