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

    Errors   Failure: pyarrow is missing, the URL has a scheme that pyarrow does not support, or the
             target cannot be opened
    """
    from pocketmq.tools.archive.objects import open_objects

    try:
        return open_objects(disk, target)
    except ImportError as error:
        text = f"{target} needs pyarrow, which is not installed"
        raise Failure(text, Exit.FAILED, "pip install pyarrow") from error
    except (ValueError, OSError) as error:
        why = str(error).splitlines()[0]
        step = "name a directory, or a URL such as s3://bucket/place?region=eu-central-1"
        raise Failure(f"{target!r} cannot be opened: {why}", Exit.USAGE, step) from error


@contextmanager
def archive_errors(objects: "Objects") -> Iterator[None]:
    """Turns errors of an archive into failures of the command."""
    try:
        with shown_errors():
            yield
    except ImportError as error:
        raise Failure(str(error), Exit.FAILED, "pip install pyiceberg") from error
    except NotAStore as error:
        if error.path != objects.target:
            raise
        text, code, step = (
            f"{error.path}: {error.why}",
            Exit.REFUSED,
            "name another target, or an empty one",
        )
        if not objects.names(""):
            code, step = Exit.NOT_FOUND, "make an archive: pocketmq archive ship, or archive run"
        raise Failure(text, code, step) from error


def talk_unreported(failure: str) -> None:
    """Prints why the report to the broker of the archived offset failed; "" prints nothing."""
    if failure:
        talk(f"Note: the broker was not told what is archived, so retention may wait: {failure}")
