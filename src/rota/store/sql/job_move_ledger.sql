UPDATE job SET ledger_from = :ledger_from WHERE id = :id AND ledger_from < :ledger_from
