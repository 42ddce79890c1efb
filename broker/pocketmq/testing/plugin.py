"""The pytest plugin: brokers as fixtures, and their logs in reports of failures.

    rocketmq           a broker for one test
    rocketmq_module    a broker for all tests of a module
    rocketmq_session   a broker for all tests of a run, or of a pytest-xdist worker
    rocketmq_factory   further brokers for one test: rocketmq_factory("broker.name=second")

    @pytest.mark.rocketmq("limits.max_message_size_bytes=1MiB")     settings for a test's own broker
    pytestmark = pytest.mark.rocketmq(...)                          also for the module's broker

Installing the package registers the plugin. It imports no module of the broker before a test needs
one.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shutil import rmtree
from typing import Final

import pytest

from pocketmq.testing.broker_process import BrokerNotStarted, Spawner
from pocketmq.testing.hanging import Notices
from pocketmq.testing.rocketmq import RocketMQ

MARKER: Final = "rocketmq"
SETTINGS: Final = "rocketmq_settings"
RUNNING: Final = pytest.StashKey[list[RocketMQ]]()
SPAWNER: Final = pytest.StashKey[Spawner]()
NOTICES: Final = pytest.StashKey[Notices]()
NOTES: Final = "Notes of the fixture rocketmq"
WITHOUT_EFFECT: Final = (
    "@pytest.mark.rocketmq has no effect on a broker that tests share: use the fixture rocketmq; "
    "for rocketmq_module write pytestmark = pytest.mark.rocketmq(...) in the module, for "
    "rocketmq_session rocketmq_settings in pytest's configuration"
)
SECTION: Final = "Log of the broker at {endpoint}"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Registers the ini option."""
    about = "settings of brokers for tests, one a line: section.key=value"
    parser.addini(SETTINGS, about, type="linelist", default=[])


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker."""
    about = f"{MARKER}(setting, ...): settings of the test's own broker, 'section.key=value' each"
    config.addinivalue_line("markers", about)
    config.stash[RUNNING] = []
    config.stash[SPAWNER] = Spawner()
    config.stash[NOTICES] = Notices()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends the spawner and all its brokers."""
    config.stash[SPAWNER].close()
    config.stash[NOTICES].close()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Starts the spawner early if a collected test needs a broker."""
    if session.config.option.collectonly:
        return
    names = (getattr(item, "fixturenames", ()) for item in session.items)
    if any("rocketmq_spawner" in each for each in names):
        session.config.stash[SPAWNER].begin()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Makes the logs and notes of running brokers begin with this test."""
    for one in item.config.stash[RUNNING]:
        one.mark_log()
    _check_marks(item)
    yield


def _check_marks(item: pytest.Item) -> None:
    """Fails a test whose settings no broker would get."""
    names = getattr(item, "fixturenames", ())
    if MARKER in names or not {"rocketmq_module", "rocketmq_session"} & {*names}:
        return
    for node, _ in item.iter_markers_with_node(MARKER):
        if not (isinstance(node, pytest.Module) and "rocketmq_module" in names):
            pytest.fail(WITHOUT_EFFECT, pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Tells of a test that waits for messages without an end."""
    if not item.config.stash[RUNNING]:
        return (yield)
    with item.config.stash[NOTICES].during(item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds notes and logs of brokers to a failed test's report, and shortens a client's error."""
    if call.excinfo is not None and not item.config.getoption("fulltrace"):
        _leave_out_inside(call.excinfo.value)
    report = yield
    if report.failed:
        for one in item.config.stash[RUNNING]:
            if call.excinfo is not None:
                one.explain(call.excinfo.value)
            if one.notes:
                report.sections.append((NOTES, "\n".join(one.notes)))
            report.sections.append((SECTION.format(endpoint=one.endpoint), one.log))
    return report


def _leave_out_inside(error: BaseException) -> None:
    """Shortens the report of this package's errors to the test's own lines.

    gRPC's error repeats the text of the error that it caused. Modules with `__tracebackhide__` are
    left out by pytest.
    """
    package = __name__.partition(".")[0]
    if type(error).__module__.partition(".")[0] == package:
        error.__cause__, error.__suppress_context__ = None, True
    at = error.__traceback__
    while at is not None:
        if at.tb_frame.f_globals.get("__name__", "").partition(".")[0] == package:
            at.tb_frame.f_globals["__tracebackhide__"] = True
        at = at.tb_next


@pytest.fixture(scope="session")
def rocketmq_spawner(pytestconfig: pytest.Config) -> Spawner:
    """The spawner that forks brokers."""
    return pytestconfig.stash[SPAWNER]


@pytest.fixture
def rocketmq(
    request: pytest.FixtureRequest,
    rocketmq_spawner: Spawner,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RocketMQ]:
    """A broker for one test."""
    directory = tmp_path_factory.mktemp("rocketmq")
    with _started(request, rocketmq_spawner, directory, _marked(request.node)) as broker:
        yield broker


@pytest.fixture
def rocketmq_factory(
    request: pytest.FixtureRequest,
    rocketmq_spawner: Spawner,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[..., RocketMQ]]:
    """Starts brokers with the given settings, which end with the test."""
    with ExitStack() as brokers:

        def start(*settings: str) -> RocketMQ:
            _check_texts(settings, 'rocketmq_factory("broker.name=second")')
            directory = tmp_path_factory.mktemp("rocketmq")
            running = _running(request.config, rocketmq_spawner, directory, settings)
            return brokers.enter_context(running)

        yield start


def _marked(node: pytest.Item | pytest.Collector) -> list[str]:
    """Returns the settings of a node's markers; fails for arguments that are no texts."""
    settings: list[str] = []
    for mark in node.iter_markers(MARKER):
        given = (*mark.args, *mark.kwargs.items())
        _check_texts(given, '@pytest.mark.rocketmq("broker.auto_create_topics=false")')
        settings += mark.args
    return settings


def _check_texts(settings: Iterable[object], example: str) -> None:
    if not all(isinstance(text, str) for text in settings):
        pytest.fail(f"settings of brokers are texts, as in {example}", pytrace=False)


@pytest.fixture(scope="module")
def rocketmq_module(
    request: pytest.FixtureRequest,
    rocketmq_spawner: Spawner,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RocketMQ]:
    """A broker for all tests of a module."""
    directory = tmp_path_factory.mktemp("rocketmq-module")
    with _started(request, rocketmq_spawner, directory, _marked(request.node)) as broker:
        yield broker


@pytest.fixture(scope="session")
def rocketmq_session(
    request: pytest.FixtureRequest,
    rocketmq_spawner: Spawner,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RocketMQ]:
    """A broker for all tests of a run."""
    directory = tmp_path_factory.mktemp("rocketmq-session")
    with _started(request, rocketmq_spawner, directory) as broker:
        yield broker


@contextmanager
def _started(
    request: pytest.FixtureRequest, spawner: Spawner, directory: Path, own: Sequence[str] = ()
) -> Iterator[RocketMQ]:
    """Runs a fixture's broker; its failure to start is reported without a trace of pytest."""
    with ExitStack() as stack:
        try:
            broker = stack.enter_context(_running(request.config, spawner, directory, own))
        except BrokerNotStarted as error:
            why = f"the broker did not start: {error}"
            raise pytest.fail.Exception(why, pytrace=False) from None
        yield broker


@contextmanager
def _running(
    config: pytest.Config, spawner: Spawner, directory: Path, own: Sequence[str]
) -> Iterator[RocketMQ]:
    """Runs a broker for a block, and deletes its store at the end."""
    broker = RocketMQ(spawner, directory, own, config.getini(SETTINGS))
    config.stash[RUNNING].append(broker)
    try:
        yield broker
    finally:
        broker.kill()
        config.stash[RUNNING].remove(broker)
        rmtree(directory, ignore_errors=True)
