-- Nothing where no lane draws on pools: claim then has one lane to look at.
SELECT name, capacity, capacity - used FROM pool WHERE EXISTS (SELECT 1 FROM lane WHERE id > 1)
