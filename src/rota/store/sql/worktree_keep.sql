UPDATE worktree SET kept_at = :at, kept_why = :why WHERE path = :path AND kept_at IS NULL
