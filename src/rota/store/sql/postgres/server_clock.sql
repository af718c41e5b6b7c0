-- The time of the database's machine, not that of this transaction's beginning: one clock for all.
SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)
