"""Coverage-guided fuzzing of one decoder by Atheris. Run as a process of its own.

usage: python -m soak.damage.fuzz NAME [libFuzzer options, such as -max_total_time=60]

Atheris instruments what it imports, so nothing of the package may be imported before. The seeds
go into a corpus of the process; what it finds is written beside it and printed.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["bucketfmt"]):
    from bucketfmt.errors import BucketfmtError
    from soak.damage.targets import TARGETS


def main() -> None:
    """Fuzz until the options say stop; libFuzzer ends the process."""
    name, *options = sys.argv[1:]
    target = TARGETS[name]
    folder = Path(tempfile.mkdtemp(prefix="bucketfmt-fuzz-"))
    for number, seed in enumerate(target.seeds()):
        (folder / f"seed-{number}").write_bytes(seed)

    def run(data: bytes) -> None:
        with contextlib.suppress(BucketfmtError):
            target.run(data)

    arguments = [
        sys.argv[0],
        "-rss_limit_mb=2048",
        "-timeout=30",
        f"-artifact_prefix={folder}/",
        *options,
        str(folder),
    ]
    atheris.Setup(arguments, run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
