SELECT name, capacity, used, declared FROM pool ORDER BY name
