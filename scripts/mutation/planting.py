"""Puts a mutant into the running process: into existing functions, or into later imports.

The tree on disk is never touched.
"""

import gc
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, FunctionType, ModuleType
from typing import Any

Place = tuple[str, str, int]
"""A function's file, qualified name and first line."""


class LiveFunctions:
    """The existing functions of some files, whose code can be replaced."""

    def __init__(self, files: Sequence[str]) -> None:
        wanted = frozenset(files)
        self._functions: defaultdict[Place, list[FunctionType]] = defaultdict(list)
        for each in gc.get_objects():
            if isinstance(each, FunctionType) and each.__code__.co_filename in wanted:
                self._functions[_place(each.__code__)].append(each)

    def take(self, file: str, text: bytes) -> bool:
        """Replaces the code of a file's functions by that of a changed text.

        False: nothing to change was found, or a part could not be changed
        """
        new = compile(text, file, "exec")
        by_place: defaultdict[Place, list[CodeType]] = defaultdict(list)
        for code in _codes(new):
            by_place[_place(code)].append(code)
        changed = False
        for place, functions in self._functions.items():
            if place[0] != file:
                continue
            codes = by_place.get(place, [])
            for function in functions:
                if function.__code__ in codes:
                    continue
                if len(codes) != 1 or len(codes[0].co_freevars) != len(
                    function.__code__.co_freevars
                ):
                    return False
                function.__code__ = codes[0]
                changed = True
        return changed


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _place(code: CodeType) -> Place:
    return code.co_filename, code.co_qualname, code.co_firstlineno


class MutatedLoader(SourceFileLoader):
    """Loads one module from a changed text of its file."""

    def __init__(self, name: str, path: str, text: bytes) -> None:
        super().__init__(name, path)
        self._text = text

    def get_code(self, fullname: str) -> CodeType:
        """Returns the code of the changed text, without Python's cache of byte code."""
        return compile(self._text, self.path, "exec", dont_inherit=True)


class MutatedImport(MetaPathFinder):
    """Answers the import of one module with a mutant of it."""

    def __init__(self, name: str, path: str, text: bytes) -> None:
        self._name = name
        self._path = path
        self._text = text

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns how the module is loaded; None for every other module."""
        if fullname != self._name:
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None:
            loader: Any = MutatedLoader(fullname, self._path, self._text)
            spec.loader = loader
        return spec

    def install(self) -> None:
        """Puts this importer before all others; the module must not be imported yet."""
        if self._name in sys.modules:
            raise RuntimeError(f"{self._name} is imported already")
        sys.meta_path.insert(0, self)
