"""Archives: a store's log and tables in an object store, shipped each second.

    ship:     STORE ─► log/, timerlog/, moments/ of the target
    restore:  log/, timerlog/, one of moments/ ─► a store as it was at that moment

The names of all objects are in catalog.py.
"""
