"""Each rule of the style guide finds what it is for, and nothing beside it."""

import pytest

import tidy_prose
from tidy_source import Project, Source


def project(*texts: str) -> Project:
    """Modules of one package, each with a text."""
    return Project(
        [Source(f"broker/pocketmq/log/m{number}.py", text) for number, text in enumerate(texts)]
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"""What a log is."""', "a docstring opens with What"),
        ('class C:\n    """Whoever reads."""', "a docstring opens with Whoever"),
        ('def f():\n    """Let nobody in."""', "a docstring opens with Let"),
        (
            'async def f():\n    """Return a name."""',
            "a docstring opens with the imperative Return",
        ),
        ('"""A log of ' + "many " * 15 + 'records."""', "first line has 19 words, over 18"),
    ],
)
def test_a_first_line_that_breaks_the_guide_is_found(text: str, message: str) -> None:
    assert [finding.message for finding in tidy_prose.first_lines(project(text))] == [message]


@pytest.mark.parametrize(
    "text",
    [
        '"""A log of ' + "many " * 14 + 'records."""',
        'def f():\n    """Returns a name."""',
        'def f():\n    """Whatever the caller gave."""',
        'class Return:\n    """Return address of a call."""',
        '@click.command()\ndef f():\n    """Send a message."""',
        '@topic.asks("List.", "pocketmq topic ls")\ndef f():\n    """List topics."""',
        'def f():\n    """Counts.\n\n    Let it be long."""',
        "def f(): ...",
    ],
)
def test_a_first_line_by_the_guide_is_left_alone(text: str) -> None:
    assert [*tidy_prose.first_lines(project(text))] == []


def test_dialect_is_found_in_comments_and_docstrings_alone() -> None:
    text = '"""A.\n\nNobody reads.\n"""\nx = "nobody"\n# kept by and by\n"""Of whoever."""\n'
    found = [(finding.line, finding.message) for finding in tidy_prose.dialect(project(text))]
    assert found == [
        (3, 'the style guide has another word for "Nobody"'),
        (6, 'the style guide has another word for "by and by"'),
        (7, 'the style guide has another word for "whoever"'),
    ]


def test_a_module_docstring_of_sixteen_lines_is_an_essay() -> None:
    short, long = ('"""A.\n' + "b\n" * count + '"""\n' for count in (14, 15))
    found = [*tidy_prose.essays(project(short, long))]
    assert [finding.path for finding in found] == ["broker/pocketmq/log/m1.py"]


def test_a_class_name_given_twice_is_found_once() -> None:
    found = [
        *tidy_prose.twin_classes(
            project("class A: ...\nclass _P: ...", "class A: ...\nclass _P: ...")
        )
    ]
    assert [finding.message for finding in found] == [
        "A is also a class of broker/pocketmq/log/m0.py"
    ]
