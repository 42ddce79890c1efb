"""The target of `pocketmq archive`: a directory or a URL, and the errors of using it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pocketmq.cli.output import Exit, Failure, talk
from pocketmq.cli.store.copy import shown_errors
from pocketmq.model.errors import NotAStore

if TYPE_CHECKING:
    from pocketmq.files.disk import Disk
    from pocketmq.tools.archive.objects import Objects


def opened_objects(disk: "Disk", target: str) -> "Objects":
    """Returns the objects of a target.

    Errors   Failure: pyarrow is missing, or does not know the URL
    """
    from pocketmq.tools.archive.objects import open_objects

    try:
        return open_objects(disk, target)
    except ImportError as error:
        text = f"{target} needs pyarrow, which is not installed"
        raise Failure(text, Exit.FAILED, "pip install pyarrow") from error
    except (ValueError, OSError) as error:
        why = str(error).splitlines()[0]
        step = "name a directory, or a URL as s3://bucket/place?region=eu-central-1"
        raise Failure(f"{target!r} cannot be opened: {why}", Exit.USAGE, step) from error


@contextmanager
def archive_errors(objects: "Objects") -> Iterator[None]:
    """Turns errors of an archive into failures of the command."""
    try:
        with shown_errors():
            yield
    except NotAStore as error:
        if error.path != objects.target:
            raise
        text, code, step = (
            f"{error.path}: {error.why}",
            Exit.REFUSED,
            "name another, or an empty place",
        )
        if not objects.names(""):
            code, step = Exit.NOT_FOUND, "make an archive: pocketmq archive ship, or archive run"
        raise Failure(text, code, step) from error


def talk_unreported(failure: str) -> None:
    """Prints why a report to retention failed; "": it did not."""
    if failure:
        talk(f"Note: the report to retention failed: {failure}")
