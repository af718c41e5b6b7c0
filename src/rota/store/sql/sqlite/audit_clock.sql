-- Whether the wall clock ever went back: noted while a scheduler ran, or seen from one process to the next.
SELECT EXISTS (SELECT 1 FROM event WHERE kind = 'clock_set_back')
    OR EXISTS (SELECT 1 FROM process earlier JOIN process later ON later.epoch = earlier.epoch + 1
        WHERE later.started_at + :slack < max(earlier.started_at, coalesce(earlier.ended_at, 0)))
