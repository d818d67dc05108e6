"""A report of a check as text, line by line. Pure.

The command line prints the same lines, coloured and in its own words.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from bucketfmt.check.report import CheckReport, Finding

__all__ = ["Line", "report_lines", "summary"]

_PATHS_SHOWN = 20  # of one finding; `to_dict` has all


class Line(NamedTuple):
    """A line of text, and what the line is: the head of a finding, the outcome, or plain."""

    text: str
    kind: Literal["error", "warning", "info", "plain", "outcome"] = "plain"


def report_lines(report: CheckReport) -> Iterator[Line]:
    """Yield the findings, what was not checked, and the outcome."""
    for finding in report.findings:
        yield from _finding_lines(finding)
    checked = ", ".join(f"{number} {what}" for what, number in report.checked.items())
    yield Line(f"checked ({report.depth}): {checked or 'nothing'}")
    for sentence in report.not_checked:
        yield Line(f"not checked: {sentence}")
    yield Line(summary(report), "outcome")


def summary(report: CheckReport) -> str:
    """Return the outcome in a few words."""
    count = f"{len(report.findings)} finding{'s' * (len(report.findings) != 1)}"
    if report.findings_left_out:
        every = len(report.findings) + report.findings_left_out
        count = f"{len(report.findings)} of {every} findings; max_findings=N for more"
    shown = {
        "clean": "clean",
        "findings": count,
        "incomplete": "nothing found, but not all could be checked",
    }
    return ("stopped; " if report.interrupted else "") + shown[report.status]


def _finding_lines(finding: Finding) -> Iterator[Line]:
    place = "" if finding.partition is None else f" partition {finding.partition!r}"
    place += "" if finding.bucket is None else f" bucket {finding.bucket}"
    yield Line(f"{finding.severity} {finding.id}: {finding.title}{place}", finding.severity)
    yield Line(f"    what   {finding.evidence}")
    for path in finding.paths[:_PATHS_SHOWN]:
        yield Line(f"    file   {path}")
    if len(finding.paths) > _PATHS_SHOWN:
        more = len(finding.paths) - _PATHS_SHOWN
        yield Line(f"           and {more} more files; to_dict() names all")
    yield Line(f"    cause  {finding.cause}")
    yield Line(f"    fix    {finding.fix}")
    if finding.data_loss:
        yield Line("           rows may be lost or wrong")
    yield Line("")
