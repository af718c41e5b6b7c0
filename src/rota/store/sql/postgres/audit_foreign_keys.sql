-- PostgreSQL holds the keys, unless its triggers were switched off while somebody wrote; the function asks each of them anew.
SELECT child, parent, CAST(sum(lost) AS bigint) FROM dangling() GROUP BY child, parent ORDER BY child, parent
