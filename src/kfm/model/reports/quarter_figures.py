"""The report on a quarter: what was published, taken back, denied and overridden, for the FAIR+CARE review."""

from __future__ import annotations

from kfm.model.records import Record


class DatasetQuarter(Record, frozen=True):
    """What happened to one dataset in a quarter; `global` is what was about no single one."""

    dataset: str
    runs: int = 0  # ended runs that build data
    failed: int = 0  # of all its operations
    publications: int = 0
    withdrawals: int = 0
    rollbacks: int = 0  # to another version
    hotfixes: int = 0  # applied or taken back
    freezes: int = 0
    denials: int = 0
    escalations: int = 0  # ended because a community must decide
    care_flags: int = 0  # rules of protection that ledger entries name
    overrides: int = 0
    energy_wh: float | None = None  # of the operations whose energy is known; None: of none
    energy_methods: list[str] = []  # how it is known: measured, estimated, reported; a sum may mix them
    carbon_g: float | None = None  # of the operations whose carbon is known; None: of none
    without_carbon: int = 0  # ended operations whose carbon is unknown
    unmeasured: int = 0  # ended operations whose energy is unknown


class DenialCount(Record, frozen=True):
    """How often a rule denied something."""

    dataset: str
    rule: str
    count: int


class OverrideLine(Record, frozen=True):
    """A rule or an objective that a person overrode."""

    at: str
    dataset: str
    what: str  # the rule, or the objective
    who: str | None  # None: withheld, because the data are protected
    has_reason: bool | None  # None: the same
    until: str | None  # when it ended; None: it was for one run


class ObjectiveQuarter(Record, frozen=True):
    """Whether an objective was kept in the quarter, as it is declared now."""

    name: str
    target: float
    actual: float | None  # None: nothing happened that it counts
    kept: bool | None


class QuarterReport(Record, frozen=True):
    """What the ledger and the telemetry say about a quarter."""

    quarter: str  # such as 2026-Q3
    begin: str  # its first instant, in UTC
    end: str  # the first instant after it
    made: str  # when the report was made
    is_over: bool  # False: the quarter goes on
    entries: int  # of the ledger, in the quarter
    datasets: list[DatasetQuarter]
    denials: list[DenialCount]
    overrides: list[OverrideLine]
    objectives: list[ObjectiveQuarter] | None  # None: the files cannot be read
    open_reviews: int  # these three are as of `made`
    broken_links: int
    orphan_links: int
