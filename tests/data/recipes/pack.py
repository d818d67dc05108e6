"""Pack a table with what Hudi read from it: the same folder always gives the same bytes."""

from __future__ import annotations

import json
import lzma
import tarfile
from pathlib import Path

__all__ = ["pack_tables"]


def pack_tables(out: Path, into: Path, names: list[str]) -> int:
    """Write into/NAME.tar.xz for every table of `out` (or those named)."""
    into.mkdir(parents=True, exist_ok=True)
    for name in names or sorted(path.name for path in out.iterdir() if path.name != "_expected"):
        target = into / f"{name}.tar.xz"
        with (
            lzma.open(target, "wb", preset=9 | lzma.PRESET_EXTREME) as stream,
            tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for top in (out / name, *_expectations(out, name)):
                for path in (top, *sorted(top.rglob("*"))):
                    archive.add(
                        path, path.relative_to(out).as_posix(), recursive=False, filter=_plain
                    )
        print(f"{target} {target.stat().st_size}", flush=True)
    return 0


def _expectations(out: Path, name: str) -> list[Path]:
    """What belongs to this table and not to one whose name starts alike: NAME.json lists it."""
    index = out / "_expected" / f"{name}.json"
    folders = {path.name: path for path in (out / "_expected").iterdir() if path.is_dir()}
    if index.exists():
        return [
            index,
            *(folders[folder] for folder in sorted(json.loads(index.read_text())["folders"])),
        ]
    return [folders[name]] if name in folders else []


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if entry.name.endswith((".crc", "/_SUCCESS")) and entry.name.startswith("_expected/"):
        return None
    entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = 0, 0, 0, "", ""
    entry.mode = 0o755 if entry.isdir() else 0o644
    return entry
