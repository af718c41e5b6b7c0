SELECT min(until) FROM provider_hold
