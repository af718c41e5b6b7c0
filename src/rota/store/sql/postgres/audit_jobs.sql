SELECT id, name, version, enabled, created_at, retired_at, used_up_at, next_for, next_at, fire_number, ledger_from, paused_at, held_for,
    mode, booted, provisional_at
FROM job WHERE name > :after AND (CAST(:jobs AS text) IS NULL OR id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:jobs AS json))))) ORDER BY name LIMIT :limit
