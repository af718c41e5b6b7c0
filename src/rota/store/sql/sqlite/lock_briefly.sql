-- Nobody holds single rows here.
SELECT 1
