"""Reads a store in a session that PocketMQ did not make: python own_session.py STORE.

It prints how many messages there are, and which Python Spark's workers run.
"""

import sys
from pathlib import Path


def main(store: str) -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from pyspark.sql import SparkSession

    from pocketmq.spark.readers import register

    settings: dict[str, bool | float | int | str | None] = {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    session = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
    register(session)
    frame = session.read.format("pocketmq").option("columns", "topic").load(store)
    runs = session.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect()
    print(frame.count(), "messages", *runs)
    session.stop()


if __name__ == "__main__":
    main(sys.argv[1])
