"""`pocketmq mqbroker`: a broker by the command line and the files of RocketMQ's mqbroker."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import click

from pocketmq.cli.options import FILE, examples, remember_settings, set_option
from pocketmq.cli.output import Output, talk
from pocketmq.cli.serve import insecure_option, run


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "pocketmq mqbroker -n namesrv:9876 --enable-proxy -c conf/broker.conf",
        "docker run -p 8081:8081 -v ./store:/home/rocketmq/store pocketmq sh mqbroker",
    ),
)
@click.option(
    "-c", "-bc", "--configFile", "--brokerConfigPath", "broker_conf", type=FILE,
    callback=remember_settings,
    help="broker.conf; else conf/broker.conf of ROCKETMQ_HOME, if it exists.",
)  # fmt: skip
@click.option(
    "-pc", "--proxyConfigPath", "proxy_conf", type=FILE,
    help="rmq-proxy.json; else conf/rmq-proxy.json of ROCKETMQ_HOME, if it exists.",
)  # fmt: skip
@click.option("-n", "--namesrvAddr", "_namesrv", help="Accepted; there is no name server.")
@click.option("--enable-proxy", "_proxy", is_flag=True, help="Accepted; gRPC is always served.")
@click.option("-pm", "--proxyMode", "_mode", help="Accepted; the broker is its own proxy.")
@click.option("-p", "--printConfigItem", "_all", is_flag=True, help="Print the settings, and end.")
@click.option("-m", "--printImportantConfig", "_some", is_flag=True, help="As -p.")
@insecure_option
@set_option
def mqbroker(
    broker_conf: Path | None,
    proxy_conf: Path | None,
    insecure: bool,
    assignments: tuple[str, ...],
    _all: bool,
    _some: bool,
    **ignored: object,
) -> None:
    """Run a broker by the command line, files and environment of RocketMQ's mqbroker.

    It replaces a broker with --enable-proxy: clients of RocketMQ 5 connect to port 8081. The store
    is where RocketMQ has it, ~/store or storePathRootDir. Callers are checked if broker.conf has
    authenticationEnabled or aclEnable, or if there are users. The log lists names of broker.conf
    that have no effect.
    """
    from pocketmq.app.container import SECRET, USER
    from pocketmq.config.official import APPLIED, official_start

    start = official_start(broker_conf, proxy_conf, os.environ)
    given = (*start.assignments, *assignments, *(["access.check=off"] if insecure else []))
    preset = None if start.file or os.environ.get("POCKETMQ_PRESET") else "server"
    sources: dict[str, Any] = {"file": start.file, "preset": preset, "applied": APPLIED}
    if _all or _some:
        from pocketmq.cli.config import print_settings

        print_settings(Output(None), given, origin=True, **sources)
        return
    if start.admin[0] and not os.environ.get(SECRET):
        os.environ[USER], os.environ[SECRET] = start.admin
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # ignored until the broker handles it
    sys.exit(run(given, is_live=True, **sources))


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("ignored", nargs=-1)
def mqnamesrv(ignored: tuple[str, ...]) -> None:
    """Wait for SIGTERM, as PocketMQ needs no name server.

    So a compose file of RocketMQ's may keep its service of the name server.
    """
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    talk("PocketMQ needs no name server: this process only waits, and its service can be removed")
    while True:
        signal.pause()


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("ignored", nargs=-1)
def mqproxy(ignored: tuple[str, ...]) -> None:
    """Refuse to run, as the broker is its own proxy."""
    raise click.UsageError(
        "PocketMQ's broker is its own proxy: remove the service of the proxy, and publish port "
        "8081 of the broker instead"
    )
