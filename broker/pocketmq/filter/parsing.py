"""Parses filter expressions: tags and SQL92."""

from functools import lru_cache
from typing import Final

from pocketmq.filter import tag
from pocketmq.format.java_hash import tags_code
from pocketmq.model.filter import Filter

LENGTH_KEPT_MAX: Final = 1_024
"""Longest tag expression whose filter is cached, so that equal expressions share one filter."""


def parse_filter(expression: str, *, is_sql: bool = False) -> Filter:
    """Returns the filter of a tag or SQL expression; "" and "*" match everything.

    Errors   IllegalFilter
    Cost     the first SQL expression of a process loads the parser, about 0.1 s
    """
    if not is_sql or expression.strip() in ("", tag.ALL):
        is_short = len(expression) <= LENGTH_KEPT_MAX
        return _tags(expression) if is_short else tag.parse(expression, tags_code)
    from pocketmq.filter.sql.filter import parse

    return parse(expression)


@lru_cache(maxsize=1_024)
def _tags(expression: str) -> tag.TagFilter:
    return tag.parse(expression, tags_code)
