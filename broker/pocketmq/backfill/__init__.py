"""Builds a store's views with many Spark workers, and reads stores as DataFrames.

ARCHITECTURE.md ("Parallel rebuild") shows how ranges of the log become files of views.

    session.py          Spark, and its map over tasks; rebuild/parallel.py runs on it
    job.py              the plan of a run, and the run; progress.py
    checks.py           compares built files with manifests, views and the log
    advice.py           whether Spark is worth its start
    readers.py          messages, units and entries as DataFrames
                        source.py: Spark's side · request.py: options · row_filter.py: rows
                        log_walk.py · arrow_views.py
    analytics.py        ready-made queries over stores

docs/howto/spark.md shows all of it in use, on one machine and on a cluster.
"""
