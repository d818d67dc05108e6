"""Real Apache Hudi, doing what it is told line by line.

usage: hudi_server.py VERSION FOLDER

Each line of standard input is a JSON object, and is answered by one on standard output:
{"do": "read", "table": PATH, "into": FOLDER, "options": {...}} keeps a view as parquet;
{"do": "write", "table": PATH, "rows": PARQUET FILE, "options": {...}} writes rows. The answer is
{"failed": null} or why it failed.

Runs in the environment that setup.sh makes; imports nothing of this repository but its neighbour.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from hudi_writer import Writer, root_cause


def main(version: str, folder: Path) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Spark prints what is no answer
    (folder / "local").mkdir(parents=True, exist_ok=True)
    spark = Writer(version, folder).spark
    print(json.dumps({"failed": None}), file=answers, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        failed = None
        try:
            if asked["do"] == "read":
                spark.catalog.clearCache()
                rows = spark.read.format("hudi").options(**asked["options"]).load(asked["table"])
                rows.coalesce(1).write.mode("overwrite").parquet(asked["into"])
            else:
                rows = spark.read.parquet(asked["rows"])
                write = rows.write.format("hudi").options(**asked["options"]).mode("append")
                write.save(asked["table"])
        except Exception as error:
            failed = root_cause(error)
        print(json.dumps({"failed": failed}), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]).resolve())
