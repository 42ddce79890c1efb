"""Constants for checks of four bytes at once, in a word: i64(read_i32_be(raw, position)) & WORD.

    word & HIGH_BITS                        0 if all bytes are ASCII
    word + FROM_SPACE & HIGH_BITS           HIGH_BITS if all are from 0x20 on
    (word ^ QUOTES) + NONZERO & HIGH_BITS   HIGH_BITS if none is a quote
    (word | word + ONES) & HIGH_BITS        0 if all are below 0x7F

The second and the third hold for words of ASCII only.
"""

from typing import Final

STEP: Final = 4
WORD: Final = 0xFFFF_FFFF
HIGH_BITS: Final = 0x8080_8080
ONES: Final = 0x0101_0101
FROM_SPACE: Final = 0x6060_6060
ABOVE_SPACE: Final = 0x5F5F_5F5F
FROM_THREE: Final = 0x7D7D_7D7D
NONZERO: Final = 0x7F7F_7F7F
BACKSLASHES: Final = 0x5C5C_5C5C
QUOTES: Final = 0x2222_2222
