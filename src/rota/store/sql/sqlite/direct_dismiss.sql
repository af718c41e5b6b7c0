DELETE FROM direct_wait WHERE slot IS NULL
