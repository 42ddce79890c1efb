"""From an expression to its filter, in whichever language it is."""

from broker.filter import tag
from broker.format.java_hash import tags_code
from broker.model.filter import Filter


def parse_filter(expression: str, *, is_sql: bool = False) -> Filter:
    """Return the filter of an expression, of tags or of SQL; "" and "*" are everything in both.

    Errors   IllegalFilter
    Cost     the first SQL expression of a process loads the parser, about 0.1 s
    """
    if not is_sql or expression.strip() in ("", tag.ALL):
        return tag.parse(expression, tags_code)
    from broker.filter.sql.filter import parse

    return parse(expression)
