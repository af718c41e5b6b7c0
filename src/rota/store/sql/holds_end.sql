-- The count of refusals stays until a run succeeds.
UPDATE provider_hold SET until = NULL WHERE until <= :now RETURNING pool
