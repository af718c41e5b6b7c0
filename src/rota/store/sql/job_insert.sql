INSERT INTO job (id, name, source, version, enabled, created_at, updated_at, next_for, next_at, ledger_from)
VALUES (:id, :name, :source, 1, :enabled, :now, :now, :next_for, :next_at, :now)
