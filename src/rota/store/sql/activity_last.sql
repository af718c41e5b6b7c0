SELECT at, what FROM activity
