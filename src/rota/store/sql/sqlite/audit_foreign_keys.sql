SELECT "table", parent, count(*) FROM pragma_foreign_key_check GROUP BY "table", parent
