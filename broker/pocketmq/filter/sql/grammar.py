"""The grammar of SQL filters, and the errors of expressions that break it.

NOT binds tighter than a comparison, as in RocketMQ: NOT a = 5 compares NOT a with 5.
Extensions to RocketMQ: LIKE, and names in double quotes as in ActiveMQ. RocketMQ stops at the first
unexpected token and uses the part before it as the expression; in PocketMQ that is an error.
Source: SelectorParser.jj.
"""

import re
from typing import Final, cast

from lark import Lark, UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from pocketmq.filter.sql.building import Builder, Node, NotAllowed
from pocketmq.model.errors import IllegalFilter

RESERVED: Final = "(?:NOT|AND|OR|BETWEEN|IN|TRUE|FALSE|NULL|IS|CONTAINS|STARTSWITH|ENDSWITH)"
"""Words that cannot be property names."""
GRAMMAR: Final = r"""
start: or_

?or_: and_ (_OR and_)*                                      -> any_of
?and_: equality (_AND equality)*                            -> all_of
?equality: comparison
    | equality "=" comparison                               -> equal
    | equality "<>" comparison                              -> unequal
    | equality _IS NULL                                     -> is_null
    | equality _IS _NOT NULL                                -> is_not_null
?comparison: unary
    | comparison ORDER unary                                -> ordered
    | comparison _BETWEEN unary _AND unary                  -> between
    | comparison _NOT _BETWEEN unary _AND unary             -> not_between
    | comparison TEXT_TEST STRING                           -> text_test
    | comparison _NOT TEXT_TEST STRING                      -> not_text_test
    | comparison _LIKE STRING [_ESCAPE STRING]              -> like
    | comparison _NOT _LIKE STRING [_ESCAPE STRING]         -> not_like
    | comparison _IN "(" STRING ("," STRING)* ")"           -> is_in
    | comparison _NOT _IN "(" STRING ("," STRING)* ")"      -> is_not_in
?unary: primary
    | "+" unary
    | "-" unary                                             -> negated
    | _NOT unary                                            -> inverted
?primary: STRING                                            -> text
    | WHOLE                                                 -> whole
    | DOUBLE                                                -> double
    | TRUE                                                  -> true
    | FALSE                                                 -> false
    | NULL                                                  -> null
    | (PROPERTY | QUOTED)                                   -> property
    | "(" or_ ")"

ORDER: /<=|>=|<(?!>)|>/
UNEQUAL: "<>"
TEXT_TEST: /(CONTAINS|STARTSWITH|ENDSWITH)(?![\w$])/i
_AND.2: /AND(?![\w$])/i
_OR.2: /OR(?![\w$])/i
_NOT.2: /NOT(?![\w$])/i
_IS.2: /IS(?![\w$])/i
_IN.2: /IN(?![\w$])/i
_BETWEEN.2: /BETWEEN(?![\w$])/i
_LIKE.2: /LIKE(?![\w$])/i
_ESCAPE.2: /ESCAPE(?![\w$])/i
NULL.2: /NULL(?![\w$])/i
TRUE.2: /TRUE(?![\w$])/i
FALSE.2: /FALSE(?![\w$])/i
PROPERTY: /(?!RESERVED(?![\w$]))[a-z_$][a-z0-9_$]*/i
QUOTED: /"(?:[^"]|"")+"/
STRING: /'(?:[^']|'')*'/
DOUBLE.2: /(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|[0-9]+e[+-]?[0-9]+/i
WHOLE: /0|[1-9][0-9]*l?/i
COMMENT: /--[^\r\n]*/ | /\/\*(?:[^*]|\*(?!\/))*\*\//
%ignore /[ \t\n\r\f]+/
%ignore COMMENT
""".replace("RESERVED", RESERVED)

LENGTH_MAX: Final = 4_096
"""Longest expression in characters; a list of a hundred ids fits. RocketMQ has no limit."""
NESTING_MAX: Final = 32
"""Depth of nested parentheses, checked before parsing."""

_SHOWN: Final = {
    "STRING": "a text in single quotes", "WHOLE": "a number", "PROPERTY": "a property",
    "TEXT_TEST": "CONTAINS, STARTSWITH, ENDSWITH", "ORDER": "<, <=, >, >=", "EQUAL": "=",
    "UNEQUAL": "<>", "LPAR": "(", "RPAR": ")", "COMMA": ",", "$END": "the end",
}  # fmt: skip
_UNSAID: Final = frozenset({"DOUBLE", "FALSE", "MINUS", "PLUS", "QUOTED", "TRUE", "_ESCAPE"})
"""Tokens that error texts omit from the list of expected tokens."""
_TEXT: Final = re.compile(r"'[^']*'|\"[^\"]*\"")

_PARSER: Final = Lark(GRAMMAR, parser="lalr", transformer=Builder(), maybe_placeholders=False)
# Created once, with the first expression; builds nodes while parsing, without a tree.


def tree_of(expression: str) -> Node:
    """Returns the node of a whole expression.

    Errors   IllegalFilter: the expression is too long or too deep, has a syntax error, or breaks a
             rule of `Builder`
    Cost     0.1 to 1 ms
    """
    if len(expression) > LENGTH_MAX:
        why = f"it has {len(expression)} characters, of at most {LENGTH_MAX}"
        raise IllegalFilter(expression=f"{expression[:64]}…", why=why)
    if _nesting(expression) > NESTING_MAX:
        why = f"parentheses are nested more than {NESTING_MAX} deep"
        raise IllegalFilter(expression=expression, why=why)
    try:
        return cast("Node", _PARSER.parse(expression))
    except NotAllowed as error:
        why = f"at character {error.place + 1}: {error.why}"
        raise IllegalFilter(expression=expression, why=why) from None
    except UnexpectedInput as error:
        raise IllegalFilter(expression=expression, why=_why(expression, error)) from None


def _nesting(expression: str) -> int:
    depth = deepest = 0
    for character in _TEXT.sub("", expression):
        if character == "(":
            depth += 1
            deepest = max(deepest, depth)
        elif character == ")":
            depth -= 1
    return deepest


def _why(expression: str, error: UnexpectedInput) -> str:
    if isinstance(error, UnexpectedToken):
        names, token = set(error.accepts or error.expected), error.token
        is_end, place, found = token.type == "$END", token.start_pos or 0, str(token)
    else:
        assert isinstance(error, UnexpectedCharacters)
        names, place = set(error.allowed or ()), cast("int", error.pos_in_stream)
        is_end, found = False, expression[place]
    if is_end:
        where = "at its end"
    elif found == "'":
        where = f"at character {place + 1}: the text that begins here does not end"
    elif found == '"':
        where = f"at character {place + 1}: the name that begins here is empty or does not end"
    else:
        where = f"at character {place + 1}: found {found}"
    wanted = sorted(_SHOWN.get(name, name.strip("_")) for name in names - _UNSAID)
    return f"{where}, expected {', '.join(wanted)}"
