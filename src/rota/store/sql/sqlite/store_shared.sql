-- The database belongs to one folder: locks tell who is alive.
SELECT 0
