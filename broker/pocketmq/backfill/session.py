"""Opens a Spark session for rebuilding and reading stores, and maps tasks on its workers.

On a cluster every worker requires the driver's version of Python with numpy (for DataFrames also
pyarrow). The store and the output directory must have the same paths on all machines. The driver
sends this package to the workers.
"""

import atexit
import os
import py_compile
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from pickle import dumps, loads
from typing import TYPE_CHECKING, Any, Final

from pocketmq.model.errors import SparkMissing
from pocketmq.rebuild.manifest import mark_file
from pocketmq.rebuild.parallel import build_part, read_range
from pocketmq.rebuild.plan import TRIES, Mapper, TaskFailed, cut_points

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MIN: Final = 17
DESCRIPTION: Final = "spark.job.description"
SMALL_TASKS_PER_WORKER: Final = 8
"""Spark partitions for each worker if there are many small tasks: a Spark task costs 50 ms."""
_SMALL_TASKS: Final[frozenset[Callable[[Any], Any]]] = frozenset({mark_file})
"""Functions of tasks that last milliseconds; a run may have tens of thousands of such tasks."""
_PHASES: Final[Mapping[Callable[[Any], Any], str]] = {
    cut_points: "find borders of ranges",
    read_range: "read ranges of the log",
    build_part: "build queues and index files",
    mark_file: "make files durable",
}
"""Descriptions of jobs in Spark's UI and event log."""
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Variable that spark-submit sets: its options and configuration files then apply."""
_REMOTE: Final = "SPARK_REMOTE"
"""Variable with the server of Spark Connect: sessions without a master are then its sessions."""
REMOTE_SCHEME: Final = "sc://"
LOG_SETTINGS: Final = Path(__file__).resolve().with_name("log4j2.properties")
_PYTHON: Final = "PYSPARK_PYTHON"
_MANY: Final = 1_000_000
_EQUIPPED: Final[set[str]] = set()
"""Ids of Spark applications whose workers can run this package."""
_ZONE: Final = "spark.sql.session.timeZone"
_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}",
    "spark.task.maxFailures": str(TRIES),
    _ZONE: "UTC",
}
_LOCAL_SETTINGS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def is_submitted() -> bool:
    """Returns whether spark-submit started this process."""
    return _SUBMITTED in os.environ


def open_session(
    master: str = "", *, name: str = "pocketmq", settings: Mapping[str, str] | None = None
) -> "SparkSession":
    """Returns a Spark session.

    master   master URL, or sc://host:port of a server of Spark Connect; "": spark-submit's choice,
             or the server of SPARK_REMOTE, else local[*]
    Errors   SparkMissing: pyspark or a Java runtime of version 17 or newer is missing, or Spark
             rejects the settings or the master
    Cost     some seconds: a Java process starts
    """
    if master.startswith(REMOTE_SCHEME) or (not master and _REMOTE in os.environ):
        return _remote_session(master, name, settings or {})
    check_java()
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkMissing(
            why="pyspark is not installed: pip install 'pyspark>=4.3' 'pyarrow>=26'"
        ) from error
    os.environ.setdefault(_PYTHON, sys.executable)
    chosen = {} if is_submitted() else dict(_SETTINGS)
    if not master and not is_submitted():
        master = "local[*]"
    builder = SparkSession.builder.appName(name)
    if master:
        builder = builder.master(_with_tries(master))
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        chosen |= _LOCAL_SETTINGS
    for key, value in {**chosen, **(settings or {})}.items():
        builder = builder.config(key, value)
    session = _started(builder)
    equip(session)
    return session


def _remote_session(server: str, name: str, settings: Mapping[str, str]) -> "SparkSession":
    """Returns a session of a server of Spark Connect; "": of the one that SPARK_REMOTE names."""
    try:
        from pyspark.sql import SparkSession
        from pyspark.sql.connect import utils

        utils.check_dependencies()
    except ImportError as error:
        raise SparkMissing(
            why=f"the client of Spark Connect is incomplete: {_reason(str(error))}; install it: "
            "pip install 'pyspark[connect]>=4.3'"
        ) from error
    builder = SparkSession.builder.appName(name)
    if server:
        builder = builder.remote(server)
    for key, value in {_ZONE: "UTC", **settings}.items():
        builder = builder.config(key, value)
    return _started(builder)


def has_context(session: "SparkSession") -> bool:
    """Returns whether a session runs in this process; those of Spark Connect do not."""
    return getattr(session, "sparkContext", None) is not None


def equip(session: "SparkSession") -> None:
    """Makes a session's workers run this package, with this Python unless settings name another.

    By default Spark's workers run the first python3 on PATH, which may lack this environment's
    packages. If their Python cannot import this package, as on clusters, an archive of it is sent.
    The workers of Spark Connect always have the Python and the packages of its server.

    Cost     a Python process; none for a session that was equipped before
    """
    if not has_context(session):
        return
    context = session.sparkContext
    if context.applicationId in _EQUIPPED:
        return
    is_local = (context.master or "").startswith("local")
    is_settled = _PYTHON in os.environ or context.getConf().contains("spark.pyspark.python")
    if is_local and not is_settled:
        context.pythonExec = sys.executable
    if not (is_local and _is_found_by(context.pythonExec)):
        context.addPyFile(str(package_archive()))
    _EQUIPPED.add(context.applicationId)


def _is_found_by(python: str) -> bool:
    """Returns whether a Python, started in any directory, imports this copy of the package."""
    place = str(Path(__file__).resolve().parents[1] / "__init__.py")
    code = "import pocketmq, os; print(os.path.realpath(pocketmq.__file__))"
    try:
        told = subprocess.run([python, "-c", code], capture_output=True, text=True, cwd="/")
    except OSError:
        return False
    return told.stdout.strip() == place


def _started(builder: Any) -> "SparkSession":
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        session: SparkSession = builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        raise SparkMissing(why=_reason(str(error))) from error
    return session


def _with_tries(master: str) -> str:
    """Returns a local master URL that retries failed tasks, as clusters do."""
    match = re.fullmatch(r"local(?:\[([0-9]+|\*)\])?", master)
    return f"local[{match[1] or 1},{TRIES}]" if match else master


def check_java() -> None:
    """Raises SparkMissing unless there is a Java runtime that Spark can use."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not java:
        raise SparkMissing(
            why=f"there is no Java runtime; install version {JAVA_MIN} or newer, on Debian and "
            "Ubuntu: apt-get install openjdk-17-jre-headless"
        )
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError) as error:
        raise SparkMissing(why=f"{java} does not run: {error}") from error
    version = re.search(r'version "(\d+)', told)
    if version and int(version[1]) < JAVA_MIN:
        raise SparkMissing(why=f"{java} is version {version[1]}, Spark needs {JAVA_MIN} or newer")


def package_archive() -> Path:
    """Returns a zip file of this package for workers; it is deleted when the process ends.

    It contains bytecode files beside the sources, so that workers need not compile the sources.
    """
    root = Path(__file__).resolve().parents[1]
    scratch = Path(tempfile.mkdtemp(prefix="pocketmq-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    target = scratch / "pocketmq.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(root.rglob("*.py")):
            name = path.relative_to(root.parent)
            compiled = scratch / "module.pyc"
            py_compile.compile(
                str(path), str(compiled), str(name), doraise=True,
                invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
            )  # fmt: skip
            archive.write(path, name)
            archive.write(compiled, name.with_suffix(".pyc"))
    return target


def spark_mapper(session: "SparkSession", partitions: int = 0) -> Mapper:
    """Returns a map that runs tasks on the session's workers.

    partitions   Spark partitions of the tasks; 0: one for each task, or fewer for small tasks
    Errors       TaskFailed, when the map is called
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    def run(function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterable[Any]:
        if not tasks:
            return []
        count = partitions or len(tasks)
        if function in _SMALL_TASKS:
            count = min(count, SMALL_TASKS_PER_WORKER * worker_count(session))
        try:
            with _described(session, f"{_phase_of(function)}: {len(tasks)} tasks"):
                return _spread(session, function, tasks, min(count, len(tasks)))
        except (PySparkException, Py4JError) as error:
            raise TaskFailed(_reason(str(error))) from error

    return run


def _phase_of(function: Callable[[Any], Any]) -> str:
    name = getattr(function, "__name__", "work")  # A partial function has none.
    return f"pocketmq: {_PHASES.get(function, name)}"


@contextmanager
def _described(session: "SparkSession", text: str) -> Iterator[None]:
    """Describes the jobs of the block to Spark; afterwards the caller's description applies.

    Spark Connect has no descriptions.
    """
    if not has_context(session):
        yield
        return
    context = session.sparkContext
    before = context.getLocalProperty(DESCRIPTION)
    context.setLocalProperty(DESCRIPTION, text)
    try:
        yield
    finally:
        context.setLocalProperty(DESCRIPTION, before)  # type: ignore[arg-type]


def _spread(
    session: "SparkSession", function: Callable[[Any], Any], tasks: Sequence[Any], count: int
) -> list[Any]:
    """Runs tasks in `count` partitions of a DataFrame; the function contains the tasks, pickled."""
    pickled = [dumps(task) for task in tasks]
    borders = [len(tasks) * number // count for number in range(count + 1)]

    def run(number: int) -> bytes:
        mine = pickled[borders[number] : borders[number + 1]]
        return dumps([function(loads(task)) for task in mine])

    return [answer for answers in _collected(session, run, count) for answer in loads(answers)]


def _collected(
    session: "SparkSession", function: Callable[[int], bytes], count: int
) -> list[bytes]:
    """Calls a function on the numbers below `count`, each in its own partition of a DataFrame."""
    from pyspark.sql.functions import udf

    # A deterministic function may be called twice for one row.
    applied = udf(function, "binary", useArrow=False).asNondeterministic()
    frame = session.range(0, count, 1, count).select(applied("id").alias("answers"))
    return [bytes(row["answers"]) for row in frame.collect()]


def _reason(told: str) -> str:
    """Extracts the reason of a failed job: the last line of a Python traceback, or Spark's text."""
    told = told.partition("\n\nJVM stacktrace:")[0]  # Spark Connect adds it.
    told = told.strip().removesuffix("SQLSTATE: 38000")  # An error of a Python function.
    lines = told.strip().splitlines() or [""]
    if "Traceback (most recent call last):" in told:
        return lines[-1].strip()
    spark = next((line for line in lines if line.startswith(": ")), lines[0])
    spark = spark.rpartition("most recent failure: ")[2].removeprefix(": ")
    return spark.partition(" Consider setting")[0].strip()


def worker_count(session: "SparkSession") -> int:
    """Returns the number of concurrent tasks of the workers that have started so far.

    Cost     a job under Spark Connect, whose client does not know the number
    """
    if has_context(session):
        return int(session.sparkContext.defaultParallelism)
    from pyspark.sql import functions as F  # noqa: N812 - the name every Spark text uses

    # Spark divides such a range into as many partitions.
    numbers = session.range(_MANY).select(F.spark_partition_id().alias("number"))
    return int(numbers.agg(F.max("number")).collect()[0][0]) + 1


def wait_for_workers(session: "SparkSession") -> int:
    """Runs an empty task, so that the first workers start; returns `worker_count`.

    Cost     one or two seconds in a new session; the session's first job is then as much faster
    """
    session.range(0, 1, 1, 1).count()
    return worker_count(session)
