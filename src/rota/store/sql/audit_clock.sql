-- Whether the wall clock ever went back: noted while a scheduler ran, or seen from one process to the next. The end of a lost one is written
-- by its successor, after its recovery.
SELECT EXISTS (SELECT 1 FROM event WHERE kind = 'clock_set_back')
    OR EXISTS (SELECT 1 FROM process earlier JOIN process later ON later.epoch = earlier.epoch + 1 AND later.worker_id = earlier.worker_id
        WHERE later.started_at + :slack < earlier.started_at OR (later.started_at + :slack < earlier.ended_at AND earlier.ending <> 'lost'))
