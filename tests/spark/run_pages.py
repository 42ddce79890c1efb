"""Runs the Python and SQL blocks of pages in one Spark session: python run_pages.py PLAN.

PLAN is a JSON document: `words`, texts of the pages with their replacements; `names`, variables
of the programs; `pages`, each with its path and the store that its programs read as ./store;
`command`, a command of pocketmq that runs last. What each block printed is written to standard
output as a JSON document a line, with the page's line of the block. Queries that the blocks left
running end when they have read everything.

With SPARK_REMOTE=local[2] the session is one of Spark Connect, otherwise a classic one. Paths of
the programs are relative to the directory of the process: Spark's JVM keeps the first one.
"""

import json
import os
import re
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, Final

_BLOCK: Final = re.compile(r"^```(?P<language>python|sql)\n(?P<text>.*?)^```$", re.M | re.S)
_STORE: Final = Path("store")


def main(plan: dict[str, Any]) -> None:
    from pyspark.sql import SparkSession

    from pocketmq.cli.program import program

    session: Any = SparkSession.builder.getOrCreate()  # That of the programs, too.
    is_remote = not hasattr(session, "_jvm")
    sys.stdout.write(json.dumps({"is_remote": is_remote}) + "\n")
    for page in plan["pages"]:
        _STORE.unlink(missing_ok=True)
        _STORE.symlink_to(page["store"])
        _run(session, Path(page["path"]), plan)
    with redirect_stdout(StringIO()) as printed:
        program(plan["command"], standalone_mode=False)  # It stops the session.
    sys.stdout.write(json.dumps({"document": json.loads(printed.getvalue())}) + "\n")


def _run(session: Any, page: Path, plan: dict[str, Any]) -> None:
    text = page.read_text("utf-8")
    names: dict[str, Any] = dict(plan["names"])
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        code = found["text"]
        for word, here in plan["words"].items():
            code = code.replace(word, here)
        with redirect_stdout(StringIO()) as printed:
            if found["language"] == "sql":
                session.sql(code)
            else:  # A traceback names the page and its line.
                exec(compile("\n" * line + code, str(page), "exec"), names)
        row = {"page": page.name, "line": line, "printed": printed.getvalue()}
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()
    for query in session.streams.active:
        query.processAllAvailable()
        query.stop()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    main(json.loads(sys.argv[1]))
