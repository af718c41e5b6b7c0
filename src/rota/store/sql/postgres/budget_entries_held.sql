SELECT entry.run_id, entry.window_id, entry.budget, budget_window.unit, entry.estimate, entry.reserved, entry.spent
FROM json_array_elements_text(CAST(:ids AS json)) AS item (value)
JOIN budget_entry AS entry ON entry.run_id = item.value AND entry.settled IS NULL
JOIN budget_window ON budget_window.id = entry.window_id ORDER BY entry.budget, entry.window_id
-- when writing: FOR NO KEY UPDATE OF entry
