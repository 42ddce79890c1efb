"""An object is compiled anew where anything that goes into it is another, and only there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import compile_library
import compile_modules

pytestmark = pytest.mark.skipif(
    bool(compile_modules.lacking()), reason="a C compiler is missing"
)  # as those that compile a wheel

BUILD = """
import sys
from pathlib import Path
from setuptools import Extension
import compile_library
scratch, cache, common, *options = sys.argv[1:]
sources = sorted(map(str, Path(scratch).glob("*.c")))
made = Extension("numbers_of", sources, include_dirs=[scratch], extra_compile_args=options)
compile_library.build(Path(scratch), Path(cache), [made], [common.encode()])
sys.path.insert(0, scratch + "/lib")
import numbers_of
print(numbers_of.total)
"""
ENTRY = """#include <Python.h>
int one(void); int two(void);
static struct PyModuleDef def = {PyModuleDef_HEAD_INIT, "numbers_of", NULL, -1, NULL};
PyMODINIT_FUNC PyInit_numbers_of(void) {
    PyObject *made = PyModule_Create(&def);
    PyModule_AddIntConstant(made, "total", one() + two());
    return made;
}
"""


class Tree:
    """Three C files, built as often as one likes, each time in another place."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cache = root / "objects"
        self.sources = {"entry": ENTRY}
        self.builds = 0
        self.number("one", 1)
        self.number("two", 2)

    def number(self, name: str, number: int) -> None:
        self.sources[name] = f"int {name}(void) {{ return {number}; }}\n"

    def build(self, *options: str, common: str = "headers") -> subprocess.CompletedProcess[str]:
        self.builds += 1
        scratch = self.root / f"scratch-{self.builds}"
        scratch.mkdir()
        for name, text in self.sources.items():
            (scratch / f"{name}.c").write_text(text)
        scripts = str(Path(compile_modules.__file__).parent)
        return subprocess.run(
            [sys.executable, "-c", BUILD, str(scratch), str(self.cache), common, *options],
            env={**os.environ, "PYTHONPATH": scripts},
            capture_output=True,
            text=True,
            check=False,
        )

    def total(self, *options: str, common: str = "headers") -> int:
        done = self.build(*options, common=common)
        assert not done.returncode, done.stderr
        return int(done.stdout.split()[-1])

    def objects(self) -> int:
        return len([*self.cache.iterdir()])


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_what_did_not_change_is_not_compiled_again(tree: Tree) -> None:
    assert (tree.total(), tree.objects()) == (3, 3)
    assert (tree.total(), tree.objects()) == (3, 3)
    tree.number("two", 5)
    assert (tree.total(), tree.objects()) == (6, 4)
    tree.number("two", 2)
    assert (tree.total(), tree.objects()) == (3, 4)


def test_other_headers_or_options_are_other_objects(tree: Tree) -> None:
    tree.total()
    assert (tree.total(common="other headers"), tree.objects()) == (3, 6)
    assert (tree.total("-O0"), tree.objects()) == (3, 9)


def test_what_does_not_compile_ends_it_and_is_not_kept(tree: Tree) -> None:
    tree.total()
    tree.sources["two"] = "int two(void) { return nothing; }\n"
    failed = tree.build()
    assert failed.returncode
    assert "nothing" in failed.stderr
    assert tree.objects() == 3
    tree.number("two", 7)
    assert tree.total() == 8


@pytest.mark.parametrize("left", [0, 100])
def test_an_object_that_a_power_cut_left_in_part_is_compiled_again(tree: Tree, left: int) -> None:
    tree.total()
    for kept in tree.cache.iterdir():
        kept.write_bytes(kept.read_bytes()[:left])
    assert (tree.total(), tree.objects()) == (3, 3)
    tree.number("two", 5)
    assert (tree.total(), tree.objects()) == (6, 4)


def test_the_cache_keeps_what_was_used_last(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; import compile_library as c;"
        "c.OBJECTS_MAX = 2; c.prune(Path(sys.argv[1]))"
    )
    for age, name in enumerate("abcd"):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, ns=(0, 10 - age))
    scripts = str(Path(compile_modules.__file__).parent)
    environment = {**os.environ, "PYTHONPATH": scripts}
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=environment, check=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_progress_is_printed_while_files_are_compiled(tree: Tree) -> None:
    lines = tree.build().stdout.splitlines()
    assert lines == [*(f"compile: {n} of 3 C files compiled" for n in (1, 2, 3)), "3"]


def test_of_many_files_each_tenth_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    progress = compile_library.Progress(200)
    for _ in range(200):
        progress.step()
    assert capsys.readouterr().out.splitlines() == [
        f"compile: {count} of 200 C files compiled" for count in range(20, 201, 20)
    ]
