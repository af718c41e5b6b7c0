UPDATE process SET clock_offset = :clock_offset WHERE epoch = :epoch
