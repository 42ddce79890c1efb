"""A stream that is a terminal."""

import io


class Terminal(io.StringIO):
    """A terminal; after it is closed, a write fails."""

    is_gone = False

    def isatty(self) -> bool:
        """Returns True, as a terminal does."""
        return True

    def write(self, text: str) -> int:
        """Writes a text."""
        if self.is_gone:
            raise OSError(5, "Input/output error")
        return super().write(text)
