"""What a check says: findings, counts, and what it did not look at. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from bucketfmt.arguments import check_int, check_kind
from bucketfmt.check.catalogue import CATALOGUE, Severity
from bucketfmt.check.report_text import report_lines, summary
from bucketfmt.choices import Depth
from bucketfmt.facts import facts_html
from bucketfmt.format.names.layout import is_metadata_path
from bucketfmt.format.names.names import FileGroupId, find_data_file_name
from bucketfmt.snapshot.data_files.files import FileSlice

__all__ = [
    "CheckReport",
    "Counted",
    "Event",
    "Finding",
    "NotChecked",
    "ReportBuilder",
    "Subject",
    "merge_reports",
]

_SEVERITIES: Mapping[Severity, int] = {"error": 0, "warning": 1, "info": 2}
_REASONS_MAX = 100  # for not having checked something


@dataclass(frozen=True, slots=True)
class Subject:
    """What a finding is about, for programs that act on it. Nothing is cut off.

    Attributes:
        partition: Partition path ("" of an unpartitioned table); None for the whole table.
        bucket: Bucket id; on a ring the node's value. None where no single bucket is meant.
        file_groups: (partition path, file id) of the file groups concerned.
        paths: Files and folders concerned, relative to the table root.
        instants: Requested times of the instants concerned, sorted.
    """

    partition: str | None = None
    bucket: int | None = None
    file_groups: tuple[FileGroupId, ...] = ()
    paths: tuple[str, ...] = ()
    instants: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or worth knowing.

    Attributes:
        id: Of the catalogue.
        severity: error, warning or info.
        subject: What is concerned.
        evidence: What was seen, so that a person can look at it.
        cause: What usually leads to it.
        fix: What to do that is safe.
        data_loss: Whether rows may be lost or wrong because of it.
    """

    id: str
    severity: Severity
    subject: Subject
    evidence: str
    cause: str
    fix: str
    data_loss: bool

    @classmethod
    def of(
        cls,
        finding_id: str,
        evidence: str,
        *,
        partition: str | None = None,
        bucket: int | None = None,
        slices: Iterable[FileSlice] = (),
        file_groups: Iterable[FileGroupId] = (),
        paths: Iterable[str] = (),
        instants: Iterable[str] = (),
        severity: Severity | None = None,
        fix: str | None = None,
        data_loss: bool | None = None,
    ) -> Finding:
        """Return a finding; what is not given is the catalogue's.

        Args:
            finding_id: Of the catalogue.
            evidence: What was seen.
            partition: See `Subject`.
            bucket: See `Subject`.
            slices: File slices concerned: their file groups, files and base instants.
            file_groups: Further file groups. The groups of data files among `paths` are added.
            paths: Further files.
            instants: Further instants.
            severity: Where the finding is milder than usual.
            fix: Where something else is to be done than usual.
            data_loss: Where that is not as usual.
        """
        kind, slices = CATALOGUE[finding_id], tuple(slices)
        every_path = [file.path for s in slices for file in s.files] + [*paths]
        groups = [(s.partition_path, s.file_id) for s in slices] + [*file_groups]
        return cls(
            id=finding_id,
            severity=severity or kind.severity,
            subject=Subject(
                partition,
                bucket,
                tuple(dict.fromkeys([*groups, *_find_groups(every_path)])),
                tuple(dict.fromkeys(every_path)),
                tuple(sorted({*instants, *(s.base_instant for s in slices)})),
            ),
            evidence=evidence,
            cause=kind.cause,
            fix=fix or kind.fix,
            data_loss=kind.data_loss if data_loss is None else data_loss,
        )

    @property
    def partition(self) -> str | None:
        """The subject's."""
        return self.subject.partition

    @property
    def bucket(self) -> int | None:
        """The subject's."""
        return self.subject.bucket

    @property
    def paths(self) -> tuple[str, ...]:
        """The subject's."""
        return self.subject.paths

    @property
    def instants(self) -> tuple[str, ...]:
        """The subject's."""
        return self.subject.instants

    @property
    def title(self) -> str:
        """The catalogue's few words for it."""
        return CATALOGUE[self.id].title

    @property
    def sort_key(self) -> tuple[int, str, str, int, tuple[str, ...], str]:
        """Worst first, then by id and place."""
        return (
            _SEVERITIES[self.severity],
            self.id,
            self.partition or "",
            -1 if self.bucket is None else self.bucket,
            self.paths,
            self.evidence,
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Finding:
        """Return the finding that `to_dict` returned.

        Raises:
            TypeError: `data` is not a dict.
            ValueError: `data` is not what `to_dict` returned.
        """
        with _of_to_dict(data):
            rest = dict(data)
            groups = tuple((g["partition"], g["file_id"]) for g in rest.pop("file_groups"))
            paths, instants = tuple(rest.pop("paths")), tuple(rest.pop("instants"))
            subject = Subject(rest.pop("partition"), rest.pop("bucket"), groups, paths, instants)
            return cls(subject=subject, **rest)

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as `bucketfmt check --output json` prints it."""
        subject = self.subject
        return {
            "id": self.id,
            "severity": self.severity,
            "partition": subject.partition,
            "bucket": subject.bucket,
            "file_groups": [
                {"partition": path, "file_id": file_id} for path, file_id in subject.file_groups
            ],
            "paths": list(subject.paths),
            "instants": list(subject.instants),
            "evidence": self.evidence,
            "cause": self.cause,
            "fix": self.fix,
            "data_loss": self.data_loss,
        }


def _find_groups(paths: Iterable[str]) -> Iterator[FileGroupId]:
    """Yield the file groups of the data files among some paths."""
    for path in paths:
        folder, _, text = path.rpartition("/")
        name = None if is_metadata_path(path) else find_data_file_name(text)
        if name is not None:
            yield folder, name.file_id


@dataclass(frozen=True, slots=True)
class NotChecked:
    """Something the check left out.

    Attributes:
        what: A place: a file, a partition. Several with one `why` are told together.
        why: The reason, the rest of a sentence.
        is_gap: It should have been looked at and was not, so the table cannot be called clean.
    """

    what: str
    why: str
    is_gap: bool = True


@dataclass(frozen=True, slots=True)
class Counted:
    """So many more things of a kind were checked."""

    what: str
    number: int = 1


Event = Finding | NotChecked | Counted
"""What a part of the check hands over."""


@dataclass(frozen=True, repr=False)
class CheckReport:
    """The outcome of a check. True where the table is clean; `str` is the text of the report.

    Attributes:
        status: `clean`; `findings` where any is an error or a warning; else `incomplete` where
            something was met that could not be checked.
        depth: As asked for.
        checked: How many things of each kind were looked at.
        not_checked: What was left out and why, in sentences.
        findings: Worst first.
        interrupted: It was stopped by Ctrl-C.
        findings_left_out: How many findings more than `max_findings` there were.
    """

    status: Literal["clean", "findings", "incomplete"]
    depth: Depth
    checked: Mapping[str, int]
    not_checked: tuple[str, ...]
    findings: tuple[Finding, ...]
    interrupted: bool = False
    findings_left_out: int = 0

    def __bool__(self) -> bool:
        return self.status == "clean"

    def __str__(self) -> str:
        return "\n".join(line.text for line in report_lines(self))

    def __repr__(self) -> str:
        return f"<bucketfmt.CheckReport ({self.depth}): {summary(self)}>"

    def _repr_html_(self) -> str:
        facts = {"outcome": summary(self)}
        for number, finding in enumerate(self.findings, 1):
            where = "" if finding.partition is None else f" in partition {finding.partition!r}"
            facts[f"{number}. {finding.severity} {finding.id}{where}"] = (
                f"{finding.title}: {finding.evidence} {finding.fix}"
            )
        return facts_html(f"check ({self.depth})", facts)

    @property
    def exit_code(self) -> int:
        """What `bucketfmt check` exits with: 0 clean, 1 findings, 3 incomplete, 130 stopped."""
        if self.interrupted:
            return 130
        return {"clean": 0, "findings": 1, "incomplete": 3}[self.status]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CheckReport:
        """Return the report that `to_dict` returned, of a process of one's own.

        Raises:
            TypeError: `data` is not a dict.
            ValueError: `data` is not what `to_dict` returned.
        """
        with _of_to_dict(data):
            return cls(
                data["status"],
                data["depth"],
                data["checked"],
                tuple(data["not_checked"]),
                tuple(map(Finding.from_dict, data["findings"])),
                findings_left_out=data["findings_left_out"],
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the report as `bucketfmt check --output json` prints it."""
        return {
            "status": self.status,
            "depth": self.depth,
            "checked": dict(self.checked),
            "not_checked": list(self.not_checked),
            "findings": [finding.to_dict() for finding in self.findings],
            "findings_left_out": self.findings_left_out,
        }


@contextmanager
def _of_to_dict(data: object) -> Iterator[None]:
    """Say that `data` is to be what `to_dict` returned, where reading it fails."""
    check_kind("data", data, Mapping, "the dict that to_dict returned")
    try:
        yield
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"data is not the dict that to_dict returned: {error!r}") from None


_OF_THE_TABLE = ("instants", "hashing config files")  # counted by each check of some partitions
_NOT_ASKED_FOR = ": not asked for"
_LEFT_OUT = " further findings are left out (max_findings)"


def merge_reports(reports: Sequence[CheckReport], max_findings: int) -> CheckReport:
    """Return the report of a table whose partitions were checked in several runs, at one depth.

    Raises:
        ValueError: there are no reports, or `max_findings` is less than 1.
        TypeError: an argument of another type.
    """
    check_kind("reports", reports, Sequence, "a list of what Table.check returned")
    for report in reports:
        check_kind("each of reports", report, CheckReport, "what Table.check returned")
    max_findings = check_int("max_findings", max_findings, 1)
    if not reports:
        raise ValueError("no reports to merge")
    counts: Counter[str] = Counter()
    for report in reports:
        for what, number in report.checked.items():
            of_table = what in _OF_THE_TABLE
            counts[what] = max(counts[what], number) if of_table else counts[what] + number
    findings = {finding for report in reports for finding in report.findings}
    worst = tuple(sorted(findings, key=lambda finding: finding.sort_key))
    sentences = dict.fromkeys(
        sentence
        for report in reports
        for sentence in report.not_checked
        if not sentence.endswith((_NOT_ASKED_FOR, _LEFT_OUT))
    )
    left_out = max(0, len(worst) - max_findings)
    left_out += sum(report.findings_left_out for report in reports)
    if left_out:
        sentences[f"{left_out}{_LEFT_OUT}"] = None
    statuses = {report.status for report in reports}
    status: Literal["clean", "findings", "incomplete"] = "clean"
    if "findings" in statuses:
        status = "findings"
    elif "incomplete" in statuses:
        status = "incomplete"
    checked = dict(sorted(counts.items()))
    return CheckReport(
        status,
        reports[0].depth,
        checked,
        tuple(sentences),
        worst[:max_findings],
        findings_left_out=left_out,
    )


@dataclass
class ReportBuilder:
    """Collects events into a report, keeping the worst `max_findings`."""

    depth: Depth
    max_findings: int
    interrupted: bool = False
    _findings: set[Finding] = field(default_factory=set)
    _left_out: int = 0
    _is_found: bool = False
    _counts: Counter[str] = field(default_factory=Counter)
    _is_gap: bool = False
    _not_checked: dict[str, tuple[str, int]] = field(default_factory=dict)
    _reasons_left_out: int = 0

    def add(self, event: Event) -> None:
        """Take one event."""
        if isinstance(event, Counted):
            self._counts[event.what] += event.number
        elif isinstance(event, NotChecked):
            self._add_not_checked(event)
        elif event not in self._findings:
            self._is_found |= event.severity != "info"
            self._findings.add(event)
            if len(self._findings) > 2 * self.max_findings:
                self._keep_worst()

    def build(self) -> CheckReport:
        """Return the report of all events so far."""
        self._keep_worst()
        sentences = [
            f"{first}{f' and {others} more' if others else ''}: {why}"
            for why, (first, others) in self._not_checked.items()
        ]
        if self._reasons_left_out:
            sentences.append(f"{self._reasons_left_out} further things, for other reasons")
        if self._left_out:
            sentences.append(f"{self._left_out}{_LEFT_OUT}")
        status: Literal["clean", "findings", "incomplete"] = "clean"
        if self._is_found:
            status = "findings"
        elif self.interrupted or self._is_gap:
            status = "incomplete"
        return CheckReport(
            status,
            self.depth,
            dict(sorted(self._counts.items())),
            tuple(sentences),
            tuple(sorted(self._findings, key=lambda finding: finding.sort_key)),
            self.interrupted,
            self._left_out,
        )

    def _add_not_checked(self, event: NotChecked) -> None:
        self._is_gap |= event.is_gap
        if event.why in self._not_checked:
            first, others = self._not_checked[event.why]
            self._not_checked[event.why] = first, others + 1
        elif len(self._not_checked) < _REASONS_MAX:
            self._not_checked[event.why] = event.what, 0
        else:
            self._reasons_left_out += 1

    def _keep_worst(self) -> None:
        if len(self._findings) > self.max_findings:
            worst = sorted(self._findings, key=lambda finding: finding.sort_key)
            self._left_out += len(worst) - self.max_findings
            self._findings = set(worst[: self.max_findings])
