-- For this transaction alone.
SELECT set_config('lock_timeout', '1s', true)
