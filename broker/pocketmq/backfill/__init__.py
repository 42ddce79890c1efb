"""A store's views built by many workers, and its bytes as DataFrames, with Spark.

Every record of the log has its place in the views fixed by three kinds of counting, so that nothing
has to be done in order:

    log        file 0            file 1            file 2
               ├─ range 0 ─┼─ range 1 ─┼─ range 2 ─┼─ range 3 ─┤      1 count first
                   │           │           │           │                 each range alone: how many
                   │           │           │           │                 entries, which offsets of
                   ▼           ▼           ▼           ▼                 which queues
    queues     unit n of a queue lies at byte 20 · n of it            2 units go to their place
               ──────────────────────────────────────────
    entries     0 … a-1  │ a … b-1  │ b … c-1  │ c … d-1               3 sums of the counts number
               └───── file 0, M-1 ─────┘└───── file 1 ─ …                all entries: ranges of
                 piece 0 │ piece 1        piece 0 │ …                    numbers are files
                     ▼         ▼             ▼                        4 files, and pieces of large
    index      ── 2026…001 ────────────  ── 2026…002 ──                  ones, are built alone

Between 1 and 3 the driver looks at numbers only: whether each range begins where the one before
ended, and whether the offsets of each queue follow on each other over all ranges. A piece of an
index file starts from the slot tables of the pieces before it, laid on each other.

    session.py          Spark, and its map over tasks         rebuild/parallel.py runs on it
    job.py              what a run would do, and the run      reuse.py · progress.py
    checks.py           are files what they were, or what others have; may they go into the store
    advice.py           whether Spark is worth starting
    readers.py          messages, units and entries as DataFrames
                        source.py: Spark's side · request.py: options · wanted.py: which rows
                        log_walk.py · arrow_views.py
    analytics.py        questions that stores are asked

docs/spark.md shows all of it at work, on one machine and on a cluster.
"""
