INSERT INTO acknowledgement (topic, sign, actor, acknowledged_at) VALUES (:topic, :sign, :actor, :now)
ON CONFLICT (topic) DO UPDATE SET sign = excluded.sign, actor = excluded.actor, acknowledged_at = excluded.acknowledged_at
