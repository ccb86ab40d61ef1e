"""What a node is for the purpose of making loops."""

from __future__ import annotations

from typing import Final

#: An input or captured array; a constant with one value; any other constant.
LEAF: Final = 0
LITERAL: Final = 1
TABLE: Final = 2
#: Computed element by element; a change of strides; a reduction.
EW: Final = 3
VIEW: Final = 4
REDUCE: Final = 5
#: A library routine; arrays joined in memory.
CALL: Final = 6
CONCAT: Final = 7
#: Read at computed positions; added into zeros at computed positions.
GATHER: Final = 8
SCATTER: Final = 9
#: Written into zeros; never written, but read as the operand or a zero.
PUT: Final = 10
PAD: Final = 11
#: No elements at all.
EMPTY: Final = 12

#: From this cost on a value is stored rather than computed again.
EXPENSIVE: Final = 10

#: Statements in the body of a loop: compilers take more than linear time for more.
BODY: Final = 256
