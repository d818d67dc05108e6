"""The Avro schemas of Hudi's timeline records, in short form.

Pure. Source: `hudi-common/src/main/avro/*.avsc` of Hudi 1.0.2, which 1.1 and 1.2 share.
Hudi 0.15 knows fewer fields; Avro readers skip fields that they do not know.

The short form: `name:type`, and for a type T
    ?T   may be null and is null by default     T?=x  may be null, is x by default
    ?T!  may be null, no default                T=x   never null, is x by default
    [T]  an array    <T>  a map by text
"""

from __future__ import annotations

from functools import cache

import msgspec

from bucketfmt.format.encoding.avro_container import AvroSchema

__all__ = ["HUDI_NAMESPACE", "hudi_schema", "with_java_strings"]

HUDI_NAMESPACE = "org.apache.hudi.avro.model"

_JAVA_STRING = {"avro.java.string": "String"}
_OF_TYPES = ("type", "fields", "items", "values")

_COMMIT = """
    partitionToWriteStats:?<[HoodieWriteStat]> compacted:?boolean extraMetadata:?<string>
    version:int?=1 operationType:?string
"""

_RECORDS = {
    # commits
    "HoodieCommitMetadata": _COMMIT,
    "HoodieReplaceCommitMetadata": _COMMIT + "partitionToReplaceFileIds:?<[string]>",
    "HoodieWriteStat": """
        fileId:?string path:?string prevCommit:?string numWrites:?long numDeletes:?long
        numUpdateWrites:?long totalWriteBytes:?long totalWriteErrors:?long partitionPath:?string
        totalLogRecords:?long totalLogFiles:?long totalUpdatedRecordsCompacted:?long
        numInserts:?long totalLogBlocks:?long totalCorruptLogBlock:?long totalRollbackBlocks:?long
        fileSizeInBytes:?long logVersion:?int logOffset:?long baseFile:?string logFiles:?[string]
        cdcStats:?<long> prevBaseFile:?string minEventTime:?long maxEventTime:?long
        runtimeStats:?HoodieRuntimeStats totalLogFilesCompacted:?long totalLogReadTimeMs:?long
        totalLogSizeCompacted:?long tempPath:?string numUpdates:?long""",
    "HoodieRuntimeStats": "totalScanTime:?long totalCreateTime:?long totalUpsertTime:?long",
    # clustering
    "HoodieRequestedReplaceMetadata": """
        operationType:?string clusteringPlan:?HoodieClusteringPlan extraMetadata:?<string>
        version:int?=1""",
    "HoodieClusteringPlan": """
        inputGroups:?[HoodieClusteringGroup] strategy:?HoodieClusteringStrategy
        extraMetadata:?<string> version:int?=1 preserveHoodieMetadata:?boolean
        missingSchedulePartitions:?[string]""",
    "HoodieClusteringGroup": """
        slices:?[HoodieSliceInfo] metrics:?<double> numOutputFileGroups:int?=1
        extraMetadata:?<string> version:int?=1""",
    "HoodieSliceInfo": """
        dataFilePath:?string deltaFilePaths:?[string] fileId:?string! partitionPath:?string
        bootstrapFilePath:?string version:int?=1""",
    "HoodieClusteringStrategy": "strategyClassName:?string strategyParams:?<string> version:int?=1",
    # compaction
    "HoodieCompactionPlan": """
        operations:?[HoodieCompactionOperation] extraMetadata:?<string> version:int?=1
        strategy:?HoodieCompactionStrategy preserveHoodieMetadata:boolean?=false
        missingSchedulePartitions:?[string]""",
    "HoodieCompactionOperation": """
        baseInstantTime:?string! deltaFilePaths:?[string] dataFilePath:?string fileId:?string!
        partitionPath:?string metrics:?<double> bootstrapFilePath:?string""",
    "HoodieCompactionStrategy": """
        compactorClassName:?string strategyParams:?<string> version:int?=1""",
    # cleaning
    "HoodieCleanerPlan": """
        earliestInstantToRetain:?HoodieActionInstant lastCompletedCommitTimestamp:string=""
        policy:string filesToBeDeletedPerPartition:?<[string]> version:int?=1
        filePathsToBeDeletedPerPartition:?<[HoodieCleanFileInfo]> partitionsToBeDeleted:?[string]
        extraMetadata:?<string>""",
    "HoodieActionInstant": "timestamp:string action:string state:string",
    "HoodieCleanFileInfo": "filePath:?string isBootstrapBaseFile:?boolean",
    "HoodieCleanMetadata": """
        startCleanTime:string timeTakenInMillis:long totalFilesDeleted:int
        earliestCommitToRetain:string lastCompletedCommitTimestamp:string=""
        partitionMetadata:<HoodieCleanPartitionMetadata> version:int?=1
        bootstrapPartitionMetadata:?<HoodieCleanPartitionMetadata> extraMetadata:?<string>""",
    "HoodieCleanPartitionMetadata": """
        partitionPath:string policy:string deletePathPatterns:[string] successDeleteFiles:[string]
        failedDeleteFiles:[string] isPartitionDeleted:?boolean""",
    # rollback and restore
    "HoodieInstantInfo": "commitTime:string action:string",
    "HoodieRollbackPlan": """
        instantToRollback:?HoodieInstantInfo RollbackRequests:?[HoodieRollbackRequest]
        version:int?=1""",
    "HoodieRollbackRequest": """
        partitionPath:string fileId:?string latestBaseInstant:?string filesToBeDeleted:[string]=[]
        logBlocksToBeDeleted:?<long>""",
    "HoodieRollbackMetadata": """
        startRollbackTime:string timeTakenInMillis:long totalFilesDeleted:int
        commitsRollback:[string] partitionMetadata:<HoodieRollbackPartitionMetadata> version:int?=1
        instantsRollback:[HoodieInstantInfo]=[]""",
    "HoodieRollbackPartitionMetadata": """
        partitionPath:string successDeleteFiles:[string] failedDeleteFiles:[string]
        rollbackLogFiles:?<long> logFilesFromFailedCommit:?<long>""",
    "HoodieRestorePlan": """
        instantsToRollback:[HoodieInstantInfo]=[] version:int?=2
        savepointToRestoreTimestamp:?string""",
    "HoodieRestoreMetadata": """
        startRestoreTime:string timeTakenInMillis:long instantsToRollback:[string]
        hoodieRestoreMetadata:<[?HoodieRollbackMetadata]> version:int?=1
        restoreInstantInfo:[HoodieInstantInfo]=[]""",
    # savepoints and indexing
    "HoodieSavepointMetadata": """
        savepointedBy:string savepointedAt:long comments:string
        partitionMetadata:<HoodieSavepointPartitionMetadata> version:int?=1""",
    "HoodieSavepointPartitionMetadata": "partitionPath:string savepointDataFile:[string]",
    "HoodieIndexPlan": "version:int?=1 indexPartitionInfos:?[HoodieIndexPartitionInfo]",
    "HoodieIndexPartitionInfo": """
        version:int?=1 metadataPartitionPath:?string indexUptoInstant:?string
        extraMetadata:?<string>""",
    "HoodieIndexCommitMetadata": """
        version:int?=1 operationType:?string indexPartitionInfos:?[HoodieIndexPartitionInfo]""",
    # history: an entry, or one row, of the archived timeline
    "HoodieArchivedMetaEntry": """
        hoodieCommitMetadata:?HoodieCommitMetadata hoodieCleanMetadata:?HoodieCleanMetadata
        hoodieRollbackMetadata:?HoodieRollbackMetadata
        hoodieSavePointMetadata:?HoodieSavepointMetadata commitTime:?string actionType:?string
        version:int?=1 hoodieCompactionPlan:?HoodieCompactionPlan
        hoodieCleanerPlan:?HoodieCleanerPlan actionState:?string
        hoodieReplaceCommitMetadata:?HoodieReplaceCommitMetadata
        hoodieRequestedReplaceMetadata:?HoodieRequestedReplaceMetadata
        HoodieInflightReplaceMetadata:?HoodieCommitMetadata
        hoodieIndexCommitMetadata:?HoodieIndexCommitMetadata stateTransitionTime:?string""",
    "HoodieLSMTimelineInstant": """
        instantTime:?string completionTime:?string action:?string metadata:?bytes plan:?bytes
        version:int=1""",
}


@cache
def hudi_schema(name: str) -> AvroSchema:
    """Return the Avro schema, as JSON values, of the Hudi record `name`. Shared: read only."""
    return _record(name, set()) | {"namespace": HUDI_NAMESPACE}


def with_java_strings(schema: AvroSchema) -> AvroSchema:
    """Return a schema with the note that texts, and keys of maps, are strings of Java."""
    if schema == "string":
        return {"type": "string", **_JAVA_STRING}
    if isinstance(schema, list):
        return [with_java_strings(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    noted = {k: with_java_strings(v) if k in _OF_TYPES else v for k, v in schema.items()}
    return {**noted, **_JAVA_STRING} if schema.get("type") == "map" else noted


def _record(name: str, defined: set[str]) -> AvroSchema:
    defined.add(name)
    fields = [_field(text, defined) for text in _RECORDS[name].split()]
    return {"type": "record", "name": name, "fields": fields}


def _field(text: str, defined: set[str]) -> dict[str, AvroSchema]:
    name, _, text = text.partition(":")
    text, has_default, default = text.partition("=")
    if text.endswith("?"):
        return _with_default(name, [_type(text[:-1], defined), "null"], default)
    if has_default:
        return _with_default(name, _type(text, defined), default)
    if text.startswith("?") and not text.endswith("!"):
        return _with_default(name, _type(text, defined), "null")
    return {"name": name, "type": _type(text.removesuffix("!"), defined)}


def _with_default(name: str, kind: AvroSchema, default_json: str) -> dict[str, AvroSchema]:
    return {"name": name, "type": kind, "default": msgspec.json.decode(default_json)}


def _type(text: str, defined: set[str]) -> AvroSchema:
    """Expand a type; a record is defined where it occurs first, and named after that."""
    if text.startswith("?"):
        return ["null", _type(text[1:], defined)]
    if text.startswith("["):
        return {"type": "array", "items": _type(text[1:-1], defined)}
    if text.startswith("<"):
        return {"type": "map", "values": _type(text[1:-1], defined)}
    return _record(text, defined) if text in _RECORDS and text not in defined else text
