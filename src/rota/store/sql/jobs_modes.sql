-- In which modes jobs with intervals by mode were planned, by the quiet hours that they have (R-18).
SELECT DISTINCT mode, quiet FROM job WHERE mode IS NOT NULL
