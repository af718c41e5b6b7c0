UPDATE provider_hold SET until = until - :back, set_at = set_at - :back WHERE until IS NOT NULL AND stated = 0
