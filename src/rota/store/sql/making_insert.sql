INSERT INTO making (id, maker, kind, at) VALUES (:id, :maker, :kind, :at)
