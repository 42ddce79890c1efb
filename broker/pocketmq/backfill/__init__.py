"""Rebuilds a store's consume queues and index by Spark workers; reads stores as DataFrames.

ARCHITECTURE.md ("Parallel rebuild") shows how ranges of the log become consume-queue and index
files, here called "views".

    session.py          the Spark session, and a mapper that runs rebuild tasks on its workers
    job.py              plans and runs a rebuild; progress.py reports its progress
    checks.py           compares built files with manifests, views and the log
    advice.py           whether Spark is faster than one process
    source.py           messages, units and entries as a data source of Spark; `pocketmq.spark`
                        registers it · request.py: options · row_filter.py: filters
                        log_walk.py: log reader · arrow_views.py: readers of units and entries
    analytics.py        ready-made queries over stores

docs/howto/spark.md shows how to use these modules on one machine and on a cluster.
"""
