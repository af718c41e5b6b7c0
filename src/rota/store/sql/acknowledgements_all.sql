SELECT topic, sign, actor, acknowledged_at FROM acknowledgement ORDER BY topic
