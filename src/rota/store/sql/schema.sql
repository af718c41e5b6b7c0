-- name: schema_newest
SELECT max(number) FROM migration
