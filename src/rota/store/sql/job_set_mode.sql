UPDATE job SET mode = :mode, quiet = :quiet WHERE id = :id
