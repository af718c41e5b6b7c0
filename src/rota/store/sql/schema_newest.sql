SELECT max(number) FROM migration
