"""`pocketmq monitoring`: files for Prometheus and Grafana."""

from importlib import resources
from pathlib import Path
from typing import Final

import click

from pocketmq.cli.groups import NamingGroup
from pocketmq.cli.options import ENDPOINT, PATH, examples, form_option
from pocketmq.cli.output import Exit, Failure, Output, talk, typed
from pocketmq.cli.text_file import replace_text

PROMETHEUS: Final = "prometheus.yml"
TARGET: Final = "127.0.0.1:5557"
"""Address of the broker's metrics in the shipped prometheus.yml."""
SHIPPED_START: Final = "prometheus --config.file=conf/monitoring/prometheus.yml"
"""Command in the shipped prometheus.yml that starts Prometheus."""


@click.group(cls=NamingGroup, epilog=examples("pocketmq monitoring init ./monitoring"))
def monitoring() -> None:
    """Write files for Prometheus and Grafana."""


@monitoring.command(
    epilog=examples(
        "pocketmq monitoring init ./monitoring",
        "pocketmq monitoring init /etc/prometheus/pocketmq --target broker:5557",
        "docker run --rm --user $(id -u) -v ./monitoring:/out pocketmq monitoring init /out",
    )
)
@click.argument("directory", metavar="DIR", type=PATH)
@click.option(
    "--target", type=ENDPOINT, default=TARGET, show_default=True, metavar="HOST:PORT",
    help="Address of the broker's metrics.",
)  # fmt: skip
@click.option("--yes", is_flag=True, help="Replace existing files.")
@form_option
def init(directory: Path, target: str, yes: bool, out: Output) -> None:
    """Write Prometheus' configuration, alerts and recording rules, and Grafana's dashboard.

    Files that exist with other contents are replaced only with --yes; without it nothing is
    written. If the broker checks users, Prometheus needs a token (`pocketmq user token`):
    prometheus.yml shows the line for it.
    """
    texts = {one.name: one.read_text("utf-8") for one in shipped().iterdir() if one.is_file()}
    command = f"prometheus --config.file={typed(directory / PROMETHEUS)}"
    texts[PROMETHEUS] = texts[PROMETHEUS].replace(TARGET, target).replace(SHIPPED_START, command)
    try:
        other = [name for name, text in sorted(texts.items()) if _differs(directory / name, text)]
        if other and not yes:
            why = f"{directory} has other files of these names: {', '.join(other)}"
            raise Failure(f"{why}; nothing was written", Exit.REFUSED, "replace them with --yes")
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(f"{directory} cannot be written: {error.strerror}", Exit.FAILED) from error
    for name, text in texts.items():
        replace_text(directory / name, text)
    out.show({"directory": str(directory), "target": target, "files": sorted(texts)})
    talk(f"Next: {command}")


def shipped() -> Path:
    """Returns the directory of the files: in the package, or in conf/ of a checkout."""
    package = Path(str(resources.files("pocketmq")))
    installed = package / "monitoring"
    return installed if installed.is_dir() else package.parents[1] / "conf" / "monitoring"


def _differs(path: Path, text: str) -> bool:
    return path.exists() and path.read_bytes() != text.encode()
