"""Hudi's readers of HFiles, without Spark: a JVM of some seconds, asked in lines of text."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.interop.engines.hudi import NoHudiError, find_python

__all__ = ["HFileSession", "ReadByHudi", "digest_of", "find_bundle", "write_keys"]

_SOURCES = Path(__file__).parents[1] / "hfiles"
_BUNDLE = "hudi-spark3.5-bundle_2.12"
_FOLDERS = (".ivy2/jars", f".ivy2/cache/org.apache.hudi/{_BUNDLE}/jars", ".m2/repository")
_SECONDS_MAX = 300
_SHORT_LIFE = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@dataclass(frozen=True)
class ReadByHudi:
    """What a reader found: the number of entries, their digest, and the nanoseconds it took."""

    found: int
    digest: str
    wall: int
    cpu: int


def find_bundle(version: str) -> Path | None:
    """Return Hudi's bundle for Spark; None where it was not downloaded."""
    for folder in _FOLDERS:
        found = sorted((Path.home() / folder).rglob(f"*{_BUNDLE}-{version}.jar"))
        if found:
            return found[0]
    return None


def write_keys(path: Path, keys: Iterable[bytes]) -> None:
    """Write the keys that a reader is asked for, which have to ascend."""
    path.write_bytes(b"".join(len(key).to_bytes(4, "big") + key for key in keys))


def digest_of(entries: Iterable[tuple[bytes, bytes | None]]) -> str:
    """Return the digest of entries that a reader should find; None: the key is not there."""
    digest = hashlib.sha256()
    for key, value in entries:
        digest.update(len(key).to_bytes(4, "big") + key)
        size = -1 if value is None else len(value)
        digest.update(size.to_bytes(4, "big", signed=True) + (value or b""))
    return digest.hexdigest()


class HFileSession:
    """The readers of one release, compiled."""

    def __init__(self, version: str, engine: str, folder: Path) -> None:
        """Compile the driver.

        Args:
            version: Of Hudi.
            engine: `NativeEngine`, or `HBaseEngine` of the releases that have HBase's reader.
            folder: For the classes.

        Raises:
            NoHudiError: there is no compiler, or the bundle was not downloaded.
        """
        bundle = find_bundle(version)
        if bundle is None:
            raise NoHudiError(f"Hudi {version} was not downloaded: run a test of its judge")
        if shutil.which("javac") is None:
            raise NoHudiError("no javac on this machine: install a JDK 17, not a JRE alone")
        spark = next(find_python().parents[1].glob("lib/python*/site-packages/pyspark"))
        self._class_path = f"{folder}:{bundle}:{spark}/jars/*"
        self._engine = engine
        sources = [str(_SOURCES / f"{name}.java") for name in ("HFileReaders", engine)]
        options = [f"-J{option}" for option in _SHORT_LIFE]
        options += ["-nowarn", "-proc:none", "-cp", self._class_path, "-d", str(folder)]
        command = ["javac", *options, *sources]
        subprocess.run(command, check=True, capture_output=True, timeout=_SECONDS_MAX)

    def ask(self, questions: Sequence[Sequence[str | Path]]) -> list[ReadByHudi | str]:
        """Return the answers: what was found, or the error. See HFileReaders.java."""
        lines = "".join(" ".join(map(str, question)) + "\n" for question in questions)
        command = ["java", *_SHORT_LIFE, "-cp", self._class_path, "HFileReaders", self._engine]
        done = subprocess.run(
            command, input=lines, capture_output=True, text=True, check=True, timeout=_SECONDS_MAX
        )
        answers = [line.split(" ", 2) for line in done.stdout.splitlines()]
        return [_parse(*answer[1:]) for answer in answers if answer[0] == "answer"]


def _parse(first: str, rest: str) -> ReadByHudi | str:
    if first == "failed":
        return rest
    digest, wall, cpu = rest.split()
    return ReadByHudi(int(first), digest, int(wall), int(cpu))
