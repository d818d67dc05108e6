"""Every finding the check knows: what it means, where it comes from, what to do.

Pure. The ids are stable: scripts and the documentation rely on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

__all__ = ["CATALOGUE", "FindingKind", "Severity"]

Severity = Literal["error", "warning", "info"]
"""`info` is worth knowing and leaves the table clean."""


@dataclass(frozen=True, slots=True)
class FindingKind:
    """One entry of the catalogue.

    Attributes:
        id: A letter for the family (Buckets, Consistent hashing, Metadata table, Partition rules,
            Timeline and files) and a number.
        title: What was found, in a few words.
        severity: The usual one; a single finding may be milder.
        cause: What usually led to it.
        evidence: What a finding shows of it.
        fix: What to do that is safe.
        data_loss: Whether rows may be lost or wrong because of it.
        issues: Where users reported it.
    """

    id: str
    title: str
    severity: Severity
    cause: str
    evidence: str
    fix: str
    data_loss: bool
    issues: str


_KINDS = (
    FindingKind(
        "B001",
        "Two file groups in one bucket",
        "error",
        "Two writers, or a writer that was restarted, each made a file group for the bucket: "
        "speculative or concurrent tasks, concurrent INSERT OVERWRITE, engines that name files "
        "differently. Hudi's writers refuse to start on such a bucket.",
        "The file groups with their sizes and instants; at depth full, how many keys are in "
        "more than one of them.",
        "Stop the writer that is at fault, and bring the rows of both groups together by "
        '`repair_buckets()`, or by `repair_buckets(duplicates="latest")` where keys have several '
        "rows. In a table with directories, rewrite the partition from a read of it.",
        True,
        "apache/hudi#7216, #11527, #5330, #8892, #10849, #10899, #10407, #7433, #10898, #6593, "
        "#10894",
    ),
    FindingKind(
        "B002",
        "Files of a task that was tried twice",
        "warning",
        "A retried or speculative task left its files behind: the commit names the files of "
        "the other attempt only, but readers that go by file names see both.",
        "The file that the commit names in its place; or the file group that no commit "
        "names, beside the one that commits do.",
        "Delete the files that no commit names, after a backup.",
        False,
        "apache/hudi#11527, #18045, #5330, #8892, #9303, #10849",
    ),
    FindingKind(
        "B003",
        "File id of another kind of index",
        "error",
        "A writer with other index settings, or one that knows no bucket index, wrote to the "
        "table. Records of such a file group are not found by their keys.",
        "The file id, and whether the table has buckets.",
        "Stop that writer. Where the table has a bucket index, `repair_buckets()` moves the rows "
        "to their buckets. Else delete its commit by a rollback or restore, and write its rows "
        "again with the table's index.",
        True,
        "apache/hudi#10407, #11388, #8906, #9971, #12523, apache/hudi-rs#666",
    ),
    FindingKind(
        "B004",
        "Bucket number too large",
        "error",
        "The table was written with more buckets than are stated now. Updates of the keys in "
        "these file groups go to other buckets.",
        "The file group, its bucket number, and the number of buckets that is stated.",
        "State the number of buckets the table was written with, everywhere it is written from. If "
        "the number that is stated is to stay, `repair_buckets()` moves the rows.",
        True,
        "apache/hudi#13241",
    ),
    FindingKind(
        "B005",
        "Stated number of buckets contradicts the keys",
        "error",
        "Hudi does not record the number of buckets, and it was changed between writes or is "
        "stated wrongly. From then on keys are written to a second bucket.",
        "The number that is stated, the only number that fits the keys read, how many keys "
        "that were, and how many of them contradict the stated one. Or that no number fits "
        "them.",
        "Stop the writers and put the number that the keys prove into .hoodie/hoodie.properties "
        "(hoodie.bucket.index.num.buckets=N), or leave `index=` out where that states the other "
        "one. If writes with both numbers took place, state the one that is to stay, and move the "
        "rows by `repair_buckets()`.",
        True,
        "apache/hudi#13241, #8310",
    ),
    FindingKind(
        "B006",
        "Keys in the wrong bucket",
        "error",
        "Another release, engine or hash field took the keys apart differently, or files were "
        "moved between buckets. Updates and deletes of these keys miss their rows.",
        "How many keys, three of them, the bucket the first belongs in, and the release's "
        "way of hashing and the hash fields under which most of them would be at home.",
        "Find out which writer differs (the best fitting dialect is in the evidence), stop it, "
        "and move the rows by `repair_buckets()`; in a table with directories, write the rows "
        "named again with the others' settings.",
        True,
        "apache/hudi#12155, #12120, #7894, #13650, #19304, #18223",
    ),
    FindingKind(
        "B007",
        "Keys that Hudi cannot hash as meant",
        "warning",
        "Record keys with ':' or ',' in their values: Hudi 1.x never returns from hashing one "
        "whose last field is not a hash field and holds a ':'; Hudi 0.13 to 0.15 drops every "
        "part with an unknown name before a ':', so that all such keys share one bucket.",
        "How many keys, and one of them; or how many keys of a partition give no value to hash.",
        "Hash every key field, or put the hash fields last in the record key; keep ':' out of "
        "key values.",
        False,
        "apache/hudi#8279, #12155",
    ),
    FindingKind(
        "B008",
        "One key in two buckets",
        "error",
        "The key was written under two numbers of buckets, dialects or hash fields. A scan "
        "returns it twice, a look-up once.",
        "How many keys, three of them, and the files of both buckets.",
        "Stop the writer that differs. "
        '`repair_buckets(duplicates="latest")` keeps the row that the ordering field prefers; in a '
        "table with directories, delete the other.",
        True,
        "apache/hudi#13241, #5074, #5812, #5658",
    ),
    FindingKind(
        "B009",
        "Record keys written in two ways",
        "error",
        "Releases differ in how a complex key generator writes a single field: `7` or `id:7`. "
        "Spark SQL and Flink may differ too. One row then has two keys.",
        "The prefix that some keys have and others lack, or that the table's key generator "
        "does not write.",
        "Fix the encoding for all writers (hoodie.write.complex.keygen.new.encoding) and write "
        "the rows of the minority again.",
        True,
        "apache/hudi#5074, #5812, #5658, #19304, #13650, #18223",
    ),
    FindingKind(
        "B010",
        "Uneven buckets",
        "warning",
        "The number of buckets does not suit the partition, or a few keys hold most rows.",
        "The number of buckets, the largest size, its ratio to the median, the Gini "
        "coefficient, and a number of buckets that would suit.",
        "Rewrite the table with the suggested number of buckets, or use consistent hashing, "
        "which splits large buckets.",
        False,
        "apache/hudi#6636, #8166, #7525, #12699, #11565",
    ),
    FindingKind(
        "B011",
        "One key in two file groups of a bucket",
        "error",
        "The buckets of the table have several file groups each, an extension of bucketfmt, and "
        "another program has written rows to one of them, or has copied files there. A scan "
        "returns the key twice, and writes of the key are refused.",
        "How many keys, three of them, and the file groups of the bucket.",
        "Stop the other program. Replace the partition by the rows that are to stay, with "
        "INSERT OVERWRITE from a read of it.",
        True,
        "apache/hudi#9536, #8474",
    ),
    FindingKind(
        "B012",
        "A key that look-ups overlook",
        "error",
        "The buckets of the table have several file groups each, an extension of bucketfmt, and "
        "the base file of a file group does not tell that it has the key: another program has "
        "written the key to the log, or the footer of the base file is damaged. A scan returns "
        "the key, a look-up does not, and the next upsert stores the key twice.",
        "How many keys, and three of them.",
        "Stop the other program. Compact the table, or rewrite the base file with rows of any of "
        "its keys.",
        True,
        "apache/hudi#6883, #9870",
    ),
    FindingKind(
        "B013",
        "Columns of Hudi's own in another form",
        "error",
        "Columns of Hudi's own are stored as BINARY without the annotation STRING (UTF8), or rows "
        "have no partition path, as writers other than Hudi may have them. Hudi's readers return "
        "the rows. An upsert by 0.15 adds the rows of known keys a second time where keys are "
        "bytes, and compactions by 1.0.2 fail (NullPointerException) at a partition path that is "
        'null, which is "" in a table without partitions.',
        "The columns, and how many rows, in which of the base files.",
        "Rewrite the file groups with bucketfmt: upsert a row of each, and compact the table if it "
        "is merge-on-read.",
        True,
        "apache/hudi#1488, #6411",
    ),
    FindingKind(
        "C001",
        "Hashing metadata missing or damaged",
        "error",
        "The ring or directory of the partition was lost: deleted, cut, or forgotten when the "
        "resize that made it left the timeline. Hudi then falls back to the initial ring and "
        "writes duplicates. Or an INSERT OVERWRITE of Hudi put rows into file groups that are on "
        "no ring, or Hudi dropped the partition and kept its ring (DROP PARTITION, TRUNCATE, "
        "delete_partition): Hudi's next upserts go to the file groups that were replaced, and "
        "nobody reads them.",
        "That there is no metadata, no bytes, or why they do not decode; or that only the "
        "initial ring is left while its file groups were replaced, or how many file groups of the "
        "ring were. A warning where a later ring is in force.",
        "Stop the writers and restore the file; or make a ring again by `repair_rings()`, from the "
        "keys of the file groups. Where no ring is left, the next write to the partition makes the "
        "first one again, which is right if the partition was never resized; if it was, bucketfmt "
        "refuses the write.",
        True,
        "apache/hudi#8479, #8503",
    ),
    FindingKind(
        "C002",
        "Resize without proof that it was committed",
        "error",
        "Hudi marks a committed ring with a .commit file only when somebody next reads it; "
        "until then the timeline is the only proof, and it is archived. A directory is left by a "
        "resize that another program rolled back.",
        "The instant of the resize, and what of it is there: a pending instant without a "
        "plan, base files on its ring, or none.",
        "If the resize is in the archived timeline, create the empty marker file "
        "<instant>.commit beside the metadata of a ring; else delete the metadata file.",
        True,
        "apache/hudi#8479, #8503",
    ),
    FindingKind(
        "C003",
        "Hashing metadata that contradict themselves",
        "error",
        "The metadata was edited, or written by a faulty tool: nodes out of order, a hash value "
        "no node owns, or the wrong instant, partition or sequence number.",
        "What contradicts what: the order of the nodes, their tags and file groups, the "
        "instant, the partition, the sequence number.",
        "Restore the file; else move it away, and make a ring again by `repair_rings()`.",
        True,
        "apache/hudi#6698",
    ),
    FindingKind(
        "C004",
        "File group outside the hashing metadata",
        "error",
        "The file group is live, but the ring or directory in force does not lead to it: a writer "
        "with another index, or one that used an older ring; or a resize was taken back, and its "
        "ring was left.",
        "The file group, and the instant of the metadata that do not lead to it.",
        "Stop the writers. `repair_rings()` has the ring lead to it, unless its keys lie among "
        'those of other file groups; then `repair_buckets(duplicates="latest")` moves the rows to '
        "a new ring. In a table with directories, write its rows again, and replace the file "
        "group.",
        True,
        "apache/hudi#6698, #9679, #10407",
    ),
    FindingKind(
        "C005",
        "Number of live buckets",
        "info",
        "numBuckets in the metadata stays at the initial number; the nodes are what counts.",
        "The number of nodes of the ring in force, and numBuckets.",
        "None needed.",
        False,
        "apache/hudi#18161",
    ),
    FindingKind(
        "P001",
        "Partition bucket rules that cannot be used",
        "error",
        "The hashing config is missing, damaged or malformed, or the buckets of a partition do "
        "not fit the number its rule gives.",
        "Why the rules cannot be used; or the file group beyond its partition's number; or "
        "the number that a partition's keys prove.",
        "Restore the file, or set the rules anew with the procedure "
        "partition_bucket_index_manager, which rewrites the partitions concerned.",
        True,
        "apache/hudi#13017, #19487",
    ),
    FindingKind(
        "P002",
        "Partition bucket rules that nothing committed",
        "error",
        "The rescale that wrote the rules failed or was rolled back, and the rules stayed: "
        "writers obey them although the data does not.",
        "The rules and the instant they are of.",
        "Delete the file, or run the rescale again.",
        True,
        "apache/hudi#13017",
    ),
    FindingKind(
        "T001",
        "Instant that is stuck, empty or unreadable",
        "error",
        "A writer died in the middle of a write, or stood still and completed it once others had "
        "rolled it back, or a file of the timeline was cut.",
        "The state it is in and since when nothing was heard of it; that it had been rolled back "
        "before it appeared; or why its file does not decode.",
        "Take a stuck write back by rollback(instant). Restore a file that is empty or unreadable: "
        "readers take an empty commit for one that wrote nothing, and writers take a resize whose "
        "plan is empty for none.",
        True,
        "apache/hudi#11527",
    ),
    FindingKind(
        "T002",
        "Files and commits disagree",
        "error",
        "A file was deleted, cut or overwritten behind Hudi's back, or a failed write was not "
        "cleaned up.",
        "The sizes on disk and in the commit; the page, block or column that is damaged and "
        "where; the rows that a commit recorded and that are not there; the older files that "
        "no clean deleted and that are gone all the same (a warning: the newest rows are whole, "
        "time travel is not); the file or partition that its rows are of, where that is another; "
        "rows that are in no partition; a table below this one, whose partitions readers list as "
        "this one's; or why nothing refers to the file.",
        "Restore the file from a copy; else restore the table to a savepoint before it. Delete "
        "a file that nothing refers to, after a backup.",
        True,
        "apache/hudi#11178, #9615",
    ),
    FindingKind(
        "T003",
        "File id both replaced and written to",
        "error",
        "An INSERT OVERWRITE wrote to the file id that it replaced, or a writer went on with a "
        "replaced file group. Readers hide all of it.",
        "The file id, the instant that replaced it, and the one that wrote to it.",
        "Write the rows again under a new file id; they are still in the files named.",
        True,
        "apache/hudi#8072, #8073, #19791",
    ),
    FindingKind(
        "T004",
        "Log files in a copy-on-write table",
        "error",
        "A bulk insert without the row writer put log files into the table; readers of "
        "copy-on-write tables do not open them.",
        "How many log files the file slices to read have. Those that no reader opens are only "
        "mentioned (info).",
        "Change the table type to MERGE_ON_READ and compact it, or write the rows again.",
        True,
        "apache/hudi#10894, #12133, #12245",
    ),
    FindingKind(
        "T005",
        "Partition without metadata file",
        "error",
        ".hoodie_partition_metadata is missing: Hudi does not take the folder for a partition "
        "when it lists the table without its metadata table.",
        "The number of data files in the folder.",
        "`repair_partitions()` makes the file again, in folders that commits of the active "
        "timeline name; with partitions= also in others. Delete a folder that is a copy.",
        True,
        "hudi-cli: repair addpartitionmeta",
    ),
    FindingKind(
        "T006",
        "hoodie.properties damaged or half updated",
        "error",
        "An update of the properties was interrupted, or they were edited by hand. Readers and "
        "writers refuse the table, or take it for another kind of table; the check goes on with "
        "the backup, or else with what the damaged file still tells.",
        "Why the file does not decode, that its checksum is wrong, which property is missing, "
        "that its last line has no end, or which file an update left.",
        "Copy hoodie.properties.backup over hoodie.properties if that is damaged or missing; "
        "then delete what else is left. Without a backup, stop the writers and put the property "
        "back that the evidence names. A wrong hoodie.table.checksum may be removed: Hudi "
        "computes it anew.",
        False,
        "apache/hudi#10404",
    ),
    FindingKind(
        "T007",
        "Pending compaction that cannot be executed as planned",
        "error",
        "Until table version 6 a plan may name a log file of a write that was under way. That "
        "write failed and its file was deleted: Hudi fails to execute the plan each time.",
        "The compaction, the files of its plan that are gone, and whether a completed instant "
        "wrote them.",
        "Compact the table by `compact()`, which executes the plan without "
        "files that no completed instant wrote. No row is lost by it.",
        False,
        "hudi-cli: compaction validate, compaction unschedule",
    ),
    FindingKind(
        "T008",
        "Entry of a partition that is no file",
        "warning",
        "A symbolic link that leads to nothing or out of the table, a pipe or a socket; or a "
        "folder with the name of a data file. Neither Hudi nor bucketfmt writes such a thing. "
        "bucketfmt follows no link out of the table, and Hudi does.",
        "What it is. Where readers need the file, that is T002.",
        "Put the file itself in the place of a link, or delete the entry.",
        False,
        "apache/hudi#4278",
    ),
    FindingKind(
        "T009",
        "Files that are not Hudi's",
        "info",
        "Somebody put other files among the data files, or a writer that died left temporary "
        "ones. No reader opens them.",
        "How many there are, and the names of three.",
        "None needed. `clean` deletes temporary files after an hour. Delete others if nobody else "
        "reads them.",
        False,
        "apache/hudi#4278, #19121",
    ),
    FindingKind(
        "T010",
        "Log files whose instants are archived behind a restore",
        "error",
        "Hudi archives every instant but restores, and Hudi 1.2 takes an archived instant that is "
        "newer than an active one for pending: its readers merge the log files of that instant "
        "with the newest base file, and old rows and deletes hide newer rows. Its cleaner leaves "
        "these log files. bucketfmt reads such tables right.",
        "The base file, the log files of earlier file slices, and the instant that is active.",
        "Delete the log files by `clean()` before Hudi 1.2 reads or compacts the table. Rows that "
        "Hudi has compacted since are in the base files of before, if those are there.",
        True,
        "apache/hudi#14365",
    ),
    FindingKind(
        "T011",
        "Text that is not UTF-8",
        "error",
        "Hudi 1.x logged an update of some columns (MERGE INTO without an insert) of a key that "
        "the table had not, and its compaction stored bytes of other columns that belong to no "
        "row. `scan()` of the column raises CorruptError.",
        "The columns, in how many rows each, and three of the keys.",
        "`delete` the keys, and write the rows again that should be there.",
        True,
        "apache/hudi#19712",
    ),
    FindingKind(
        "M001",
        "Files that the metadata table has wrong",
        "error",
        "A writer that does not keep the metadata table committed to the table, files were copied "
        "or deleted by hand, or a commit died at the wrong moment. A name that begins with a part "
        "of a URL or folder ('e:eu/.f...') is one that Hudi 1.x cut at the wrong place after a "
        "restore. Hudi's readers take the metadata table's list of files without a look at the "
        "folders.",
        "The files that one of the two does not list, or of which the metadata table has another "
        "size, by name.",
        "Restore the files that T002 names, if there are such. Then rebuild the partition: "
        '`metadata_table.rebuild("files")`. Until then read with hoodie.metadata.enable=false.',
        True,
        "apache/hudi#5811",
    ),
    FindingKind(
        "M002",
        "Metadata table that cannot be read",
        "error",
        "A file of the metadata table is damaged or gone, or that of the definitions of indexes "
        "is cut, or its folder was deleted while the properties of the table still list its "
        "partitions.",
        "The file, and what is wrong with it.",
        "Rebuild the partition: `metadata_table.rebuild(PARTITION)`.",
        True,
        "apache/hudi#19324, #19332",
    ),
    FindingKind(
        "M003",
        "Record index that does not fit the keys",
        "error",
        "A writer that does not keep the record index committed to the table, or a writer of an "
        "affected release lost entries when it was retried, or inserted a key that was there: "
        "INSERT INTO of Hudi does not look for keys, and the index has one entry for both rows. A "
        "writer that goes by the index adds a key without entry a second time.",
        "For each file group how many keys have no entry or a wrong one, how many entries have no "
        "key, and three of them.",
        'Rebuild the partition: `metadata_table.rebuild("record_index")`. Where a key is in '
        "two file groups, delete it from one of them first; where a table with buckets has keys in "
        "several partitions by right, drop a global index, which has one entry for a key.",
        True,
        "apache/hudi#19395",
    ),
    FindingKind(
        "M004",
        "Metadata table that is not in step with the table",
        "error",
        "A writer committed to the table and not to its metadata table, or died while it "
        "initialised a partition. Readers of the metadata table do not see the rows of such a "
        "commit.",
        "The instants that the metadata table does not know.",
        "Rebuild the metadata table: `metadata_table.rebuild()`; or drop it with "
        "`metadata_table.drop()`, and Hudi's next write builds it anew.",
        True,
        "apache/hudi#5811",
    ),
    FindingKind(
        "M005",
        "Secondary index that does not fit the rows",
        "error",
        "A writer that does not keep the secondary index committed to the table, or a writer lost "
        "entries: Hudi 1.2.0 leaves out the rows of a write that makes the index by an option. "
        "Hudi reads by the index where a query compares the column with a value, and does not see "
        "rows without an entry.",
        "How many rows have no entry, how many entries have no row, and three of each.",
        "Rebuild the partition: `metadata_table.rebuild(PARTITION)`.",
        True,
        "apache/hudi#14090",
    ),
    FindingKind(
        "M006",
        "Statistics of a partition that leave rows out",
        "error",
        "Two writers wrote to the partition at a time, and the one that began first was done "
        "last: Hudi merges the metadata table in the order in which writes were begun. Or Hudi "
        "1.0.2 wrote to the partition while a compaction was pending there. Or texts have "
        "characters above U+FFFF, which Hudi 1.2.0 orders by UTF-16. Or Hudi 1.2.0 upgraded a "
        "table of version 6 with decimals, whose statistics have other digits. Hudi's readers "
        "leave the partition out where a filter is on the values that the statistics lack.",
        "The columns, with the bounds that the statistics have and those of the files.",
        'Rebuild the partition: `metadata_table.rebuild("partition_stats")`. bucketfmt itself does '
        "not go by them.",
        True,
        "apache/hudi#12073, #12106",
    ),
)

CATALOGUE: Mapping[str, FindingKind] = {kind.id: kind for kind in _KINDS}
"""By id, in the order of the documentation."""
