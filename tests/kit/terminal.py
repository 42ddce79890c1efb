"""A stream that is a terminal."""

import io


class Terminal(io.StringIO):
    """A terminal; once it is gone nothing can be written to it."""

    is_gone = False

    def isatty(self) -> bool:
        """Whether people read it."""
        return True

    def write(self, text: str) -> int:
        """Shows a text."""
        if self.is_gone:
            raise OSError(5, "Input/output error")
        return super().write(text)
