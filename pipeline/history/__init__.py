"""How jobs ended in all runs, in a database; docs/history.md. Importing the package imports no SQLAlchemy.

`past` says what a run asks of earlier runs; run folders answer it, or the database (`recall`). `store` keeps
the runs in it (`database` connects to it, `writer` writes a run, `tables` and `migrations` say what is in
it), `sources` reads what can be imported, `recording` brings a run in at its end, and `questions` answers
what people ask in the morning::

    from pipeline.history import questions
    from pipeline.history.past import place
    from pipeline.history.store import open_history

    with open_history(place(Path("out"), os.environ)) as history:
        run = questions.run_named(history)            # the last usual run; or by id, by `last`, by branch
        questions.new(history, run)                   # tuple[Change, ...]; the same: `fixed`, `skipped`
        questions.failing(history, run)               # tuple[Failing, ...], with age in runs and days
        questions.flaky(history, run)                 # tuple[Flaky, ...]
        questions.slower(history, run)                # tuple[Moved, ...]; the same: `faster`
        questions.vanished(history, run)              # tuple[Gone, ...]
        questions.by_platform(history, run)           # tuple[Counted, ...]; the same: `by_device`
        questions.first_bad(history, run, job)        # tuple[Boundary, ...]: at most one
        questions.last_pass(history, run, job)        # tuple[Ended, ...]: at most one
        questions.diff(history, one, other)           # tuple[Difference, ...]
        questions.strip(history, run, last=30)        # by job tuple[Ended, ...], oldest first
        questions.nights(history, run, last=365)      # tuple[Night, ...]: verdict, duration, states over time

`run` is an `answers.Run`: id, when it began, commit, branch, host, verdict, exit code. All answers are
frozen dataclasses. A mistake of the user (no such run or job) and a database that cannot be used are a
`golden.errors.UserError` in one line.
"""
