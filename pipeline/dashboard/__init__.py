"""The page that is read in the morning: static files, of a run and the history; docs/dashboard.md."""
