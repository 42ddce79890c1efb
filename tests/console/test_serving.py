"""The console on the ports of a broker: a process of its own, from the first request on."""

import asyncio
import errno
import gc
import importlib
import os
import py_compile
import signal
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
import uvicorn
from jinja2 import DictLoader, Environment, FileSystemBytecodeCache

from pocketmq.app.console import is_offered, start_command
from pocketmq.config.addresses import split_address
from pocketmq.config.load import load
from pocketmq.config.texts import path_from_text
from pocketmq.console import lean_uvicorn
from pocketmq.console.server import COLLECT, _Server, settings_of
from pocketmq.console.web import Visit, bytecode_cache
from pocketmq.metrics.tunnel import Tunnel, with_field
from tests.kit.browser import console_of
from tests.running_broker import broker_with

TOKEN = "the-secret-of-the-tunnel"


async def page(address: str, path: str) -> str:
    """Returns the answer to a GET, as a browser of this machine sends it."""
    reader, writer = await asyncio.open_connection(*split_address(address))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer.decode()


async def printed(program: str) -> str:
    """Returns the output of a Python program."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=PIPE)
    output, _ = await process.communicate()
    return output.decode().strip()


def children() -> set[int]:
    """Returns the child processes of this process."""
    folder = Path("/proc/self/task")
    return {
        int(number)
        for task in folder.iterdir()
        for number in (task / "children").read_text().split()
    }


def words_of(process_id: int, name: str) -> list[bytes]:
    """Returns the environment or the command line of a process."""
    return Path(f"/proc/{process_id}/{name}").read_bytes().split(b"\0")


async def test_the_broker_serves_the_console_beside_its_own_pages(tmp_path: Path) -> None:
    async with broker_with(tmp_path / "store", "rpc.tls=false") as broker:
        assert broker.addresses["console"] == f"http://{broker.addresses['http']}/"
        first = await page(broker.addresses["http"], "/")
        assert first.startswith("HTTP/1.1 200")
        assert "The broker accepts messages" in first
        assert "connection: close" in first.lower()
        assert "There is no topic yet" in await page(broker.addresses["grpc"], "/topics")
        assert '{"state":"running"}' in await page(broker.addresses["http"], "/livez")


async def test_a_broker_whose_console_is_not_used_has_none_of_it(tmp_path: Path) -> None:
    program = (
        "import sys, pocketmq.app.serve, pocketmq.app.console\n"
        "names = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(names & {'jinja2', 'starlette', 'uvicorn'}))\n"
        "print('pocketmq.console' in sys.modules)"
    )
    assert await printed(program) == "[]\nFalse"
    async with broker_with(tmp_path / "store", "rpc.tls=false") as broker:
        before = children()
        await page(broker.addresses["http"], "/livez")
        assert children() == before
        await page(broker.addresses["http"], "/assets/console.js")
        assert len(children() - before) == 1


async def test_the_console_leaves_ctrl_c_to_the_broker_that_ends_it(tmp_path: Path) -> None:
    async with broker_with(tmp_path / "store", "rpc.tls=false") as broker:
        before = children()
        await page(broker.addresses["http"], "/")
        (console,) = children() - before
        os.kill(console, signal.SIGINT)
        assert (await page(broker.addresses["http"], "/topics")).startswith("HTTP/1.1 200")
        assert children() - before == {console}
    server = _Server(settings_of(None), lambda: None, ends_idle=True)
    at_first = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with server.capture_signals():
            signal.raise_signal(signal.SIGINT)
            assert not server.should_exit
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, at_first)  # SIG_IGN, if the tests run in the background.


async def test_the_process_of_a_broker_has_neither_tools_nor_what_pages_rarely_need() -> None:
    program = (
        "import sys, pocketmq.console.__main__\n"
        "names = ('numpy', 'pocketmq.tools', 'pocketmq.cli', 'pocketmq.store', 'html.entities',\n"
        "    'google.protobuf.descriptor_pb2', 'google.protobuf.json_format', 'zlib_ng',\n"
        "    'uvicorn.main', 'click', 'multiprocessing')\n"
        "print([name for name in names if name in sys.modules])"
    )
    assert await printed(program) == "[]"


def test_a_program_that_uses_uvicorn_has_all_of_it() -> None:
    importlib.reload(lean_uvicorn)
    assert sys.modules["uvicorn"] is uvicorn
    assert uvicorn.run is not None


async def test_a_console_starts_with_what_takes_less_memory(tmp_path: Path) -> None:
    async with broker_with(tmp_path / "store", "rpc.tls=false") as broker:
        before = children()
        await page(broker.addresses["http"], "/assets/console.js")
        (console,) = children() - before
        variables, words = (words_of(console, name) for name in ("environ", "cmdline"))
    wanted = {b"POCKETMQ_PURE=1", b"MALLOC_ARENA_MAX=1", b"MALLOC_TRIM_THRESHOLD_=32768"}
    assert wanted <= {*variables}
    assert [word.decode() for word in words[: len(start_command())]] == [*start_command()]


async def test_sent_pages_do_not_gather_in_memory(tmp_path: Path) -> None:
    before, counts = gc.get_threshold(), []
    async with (
        broker_with(tmp_path / "store", "rpc.tls=false") as broker,
        console_of(broker.addresses["grpc"]) as visitor,
    ):
        gc.collect()
        gc.freeze()
        gc.set_threshold(*COLLECT)
        try:
            for _ in range(20):
                await visitor.get("/settings")
                counts.append(sum(isinstance(one, Visit) for one in gc.get_objects()))
        finally:
            gc.set_threshold(*before)
            gc.unfreeze()
    assert max(counts) <= 2


def test_docstrings_are_left_out_if_byte_code_without_them_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "server.py"
    module.write_text("")
    monkeypatch.setattr(sys, "pycache_prefix", None)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    assert start_command(module) == (sys.executable, "-OO", "-X", "no_debug_ranges")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert start_command(module) == (sys.executable, "-X", "no_debug_ranges")
    py_compile.compile(str(module), optimize=2)
    assert start_command(module) == (sys.executable, "-OO", "-X", "no_debug_ranges")


def test_compiled_templates_are_kept_where_python_keeps_byte_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "__pycache__"
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for _ in range(2):
        loader = DictLoader({"page.html": "{{ 1 + 1 }} rows"})
        made = Environment(loader=loader, bytecode_cache=bytecode_cache(folder))
        assert made.get_template("page.html").render() == "2 rows"
        monkeypatch.setattr(Environment, "_parse", None)  # The second one parses nothing.
    assert len([*folder.iterdir()]) == 1
    assert bytecode_cache(tmp_path / "missing" / "__pycache__") is None
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert bytecode_cache(folder) is None


def test_a_full_disk_takes_no_compiled_template_and_shows_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(FileSystemBytecodeCache, "dump_bytecode", fail)
    cache = bytecode_cache(tmp_path / "__pycache__")
    assert cache is not None
    made = Environment(loader=DictLoader({"page.html": "hello"}), bytecode_cache=cache)
    assert made.get_template("page.html").render() == "hello"


@pytest.mark.knob("console.enabled")
async def test_a_console_that_is_turned_off_answers_not_found(tmp_path: Path) -> None:
    async with broker_with(tmp_path / "store", "console.enabled=false") as broker:
        assert broker.addresses["console"] is None
        assert "404 Not Found" in await page(broker.addresses["http"], "/")


@pytest.mark.knob("console.path")
async def test_a_path_is_before_that_of_every_page(tmp_path: Path) -> None:
    settings = ("console.path=/console", "rpc.tls=false")
    async with broker_with(tmp_path / "store", *settings) as broker:
        assert str(broker.addresses["console"]).endswith("/console/")
        assert "404 Not Found" in await page(broker.addresses["http"], "/topics")
        found = await page(broker.addresses["http"], "/console/topics")
        assert 'href="/console/groups"' in found
        assert 'src="/console/assets/console.js' in found


@pytest.mark.knob("console.changes_need_login")
async def test_without_login_only_pages_are_offered(tmp_path: Path) -> None:
    settings = ("console.changes_need_login=true", "rpc.tls=false")
    async with broker_with(tmp_path / "store", *settings) as broker:
        found = await page(broker.addresses["http"], "/topics")
        assert "There is no topic yet" in found
        assert "Create a topic" not in found


@pytest.mark.knob("console.backup_path")
async def test_a_directory_for_copies_is_offered(tmp_path: Path) -> None:
    settings = (f"console.backup_path={tmp_path / 'copy'}", "rpc.tls=false")
    async with broker_with(tmp_path / "store", *settings) as broker:
        assert "Copy now" in await page(broker.addresses["http"], "/store")


def test_a_console_without_users_is_off_where_others_reach_it() -> None:
    class Open:
        def opened(self, config: object) -> list[tuple[str, str]]:
            return [("http.listen", "reached")]

    class Closed(Open):
        def opened(self, config: object) -> list[tuple[str, str]]:
            return []

    def offered(ports: Open, is_checked: bool, *assignments: str) -> bool:
        config = load(assignments=list(assignments))
        return is_offered(config, ports, is_checked=is_checked)  # type: ignore[arg-type]

    assert offered(Closed(), False)
    assert offered(Open(), True)
    assert not offered(Open(), False, "access.check=users")
    assert offered(Open(), False, "access.check=off")
    assert not offered(Closed(), False, "rpc.proxy_protocol=true")


@pytest.mark.parametrize("text", ["console", "//x", "/a//b", "/a b", "/ä", "/a?b"])
def test_an_odd_path_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no path"):
        path_from_text(text)
    assert path_from_text("/web-console") == "/web-console"


async def test_only_the_broker_states_how_a_client_came() -> None:
    async with console_of("127.0.0.1:1", token=TOKEN) as visitor:
        for field, is_private in (
            ("", False), ("wrong private https", False), (f"{TOKEN} clear http", False),
            (f"{TOKEN} private http", True),
        ):  # fmt: skip
            shown = await visitor.get("/login", **{"x-pocketmq-tunnel": field})
            assert ("password" in shown.html) is is_private


def test_the_field_comes_first_so_that_a_client_cannot_replace_it() -> None:
    head = b"GET / HTTP/1.1\r\nx-pocketmq-tunnel: mine private https\r\n\r\n"
    made = with_field(head, TOKEN, is_private=False, is_tls=False)
    assert made.startswith(
        b"GET / HTTP/1.1\r\nx-pocketmq-tunnel: the-secret-of-the-tunnel clear http\r\nx-pocketmq"
    )


async def test_a_slow_reader_holds_the_other_process_back() -> None:
    class Transport(asyncio.Transport):
        def __init__(self) -> None:
            super().__init__()
            self.calls: list[object] = []

        def write(self, data: object) -> None:
            self.calls.append(data)

        def pause_reading(self) -> None:
            self.calls.append("pause")

        def resume_reading(self) -> None:
            self.calls.append("resume")

        def is_closing(self) -> bool:
            return False

        def close(self) -> None:
            self.calls.append("close")

    client, other = Transport(), Transport()
    tunnel = Tunnel(client, b"GET")
    tunnel.send(b" / ")
    tunnel.connection_made(other)
    tunnel.pause()
    tunnel.resume()
    assert other.calls == [b"GET / ", "pause", "resume"]
    tunnel.data_received(b"200")
    tunnel.pause_writing()
    tunnel.resume_writing()
    tunnel.connection_lost(None)
    assert client.calls == [b"200", "pause", "resume", "close"]
