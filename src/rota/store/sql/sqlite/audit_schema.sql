SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite%'
