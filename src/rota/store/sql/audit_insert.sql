INSERT INTO audit (at, actor, face, action, target, detail) VALUES (:at, :actor, :face, :action, :target, :detail)
