UPDATE budget_window SET settled = settled + :settled, reserved = reserved - :reserved WHERE id = :id
