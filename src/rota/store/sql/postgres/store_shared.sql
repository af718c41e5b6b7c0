-- Folders of many machines use the database: leases tell who is alive.
SELECT 1
