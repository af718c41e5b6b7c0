UPDATE process SET ended_at = :now, ending = :ending WHERE epoch = :epoch AND ended_at IS NULL
