"""The errors of a declared updater over data: one line with the output, the step and the place."""

from __future__ import annotations

from kfm.errors import BadInput
from kfm.parsing.characters import printable

_NOUN = {"integer": "an integer", "number": "a number", "boolean": "true or false"}


class Place:
    """The step of an output that an error message names."""

    __slots__ = ("number", "output", "source", "verb")

    def __init__(self, output: str, source: str, number: int, verb: str) -> None:
        self.output = output
        self.source = source
        self.number = number
        self.verb = verb

    def __str__(self) -> str:
        return f"output {self.output}, step {self.number} ({self.verb})"

    def no_column(self, column: str) -> BadInput:
        return BadInput(
            f"{self}: there is no column {printable(column)}",
            hint="correct the name in kfm.yml; it must match exactly",
            column=column,
        )

    def taken(self, column: str) -> BadInput:
        return BadInput(
            f"{self}: there is a column {printable(column)} already",
            hint="rename or leave out one of the two",
            column=column,
        )

    def no_values(self, column: str) -> BadInput:
        return BadInput(
            f"{self}: column {printable(column)} has a type that no step can read",
            hint="leave it unchanged, or drop it with a select",
            column=column,
        )

    def too_large(self, limit: int) -> BadInput:
        return BadInput(
            f"{self}: more than {limit >> 30} GiB of rows would be held in memory",
            hint="filter or select before it, or split the source",
        )

    def unfit(self, row: int, column: str, kind: str) -> BadInput:
        return BadInput(
            f"{self}: row {row} of source {self.source}, column {printable(column)} is not {_NOUN[kind]}",
            hint="correct the source, or write unfit: blank or unfit: drop next to the cast",
            row=row,
            column=column,
        )

    def no_match(self, row: int, lookup: str) -> BadInput:
        return BadInput(
            f"{self}: row {row} of source {self.source} has no match in source {lookup}",
            hint="add it there, or write missing: keep or missing: drop",
            row=row,
        )

    def lookup_lacks(self, lookup: str, column: str) -> BadInput:
        return BadInput(
            f"{self}: source {lookup} has no column {printable(column)}",
            hint="correct the name in kfm.yml; it must match exactly",
            column=column,
        )

    def ambiguous(self, lookup: str, first: int, second: int) -> BadInput:
        return BadInput(
            f"{self}: rows {first} and {second} of source {lookup} have the same key",
            hint="a lookup has one row for each key",
            row=second,
        )

    def too_many(self, lookup: str, limit: int) -> BadInput:
        return BadInput(
            f"{self}: source {lookup} has more than {limit:,} rows to look up in",
            hint="join the larger source with the smaller one",
        )


def no_object(output: str, source: str, row: int) -> BadInput:
    return BadInput(
        f"output {output}: row {row} of source {source} is not an object",
        hint="a contract with columns holds such rows back",
        row=row,
    )


def no_feature(output: str, source: str, row: int, what: str) -> BadInput:
    return BadInput(
        f"output {output}: row {row} of source {source} cannot be a feature: {what}",
        hint="write it as json, or correct the source",
        row=row,
    )
