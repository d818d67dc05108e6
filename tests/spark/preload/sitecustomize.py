"""Has the processes that Spark forks Python workers from import what all workers use.

Python imports this file at its start, where its folder is on PYTHONPATH. Spark runs one such
process for each kind of worker, of which a setting names the module for one kind only; a worker
that imports everything itself spends two seconds on that.
"""

import sys
from contextlib import suppress
from pathlib import Path

# Spark puts its own copy of pyspark first, an archive that is compiled at each import.
_PATHS = [path for path in sys.path if not path.endswith("pyspark.zip")]
if any(Path(path, "pyspark").is_dir() for path in _PATHS):
    sys.path[:] = _PATHS
if "pyspark.daemon" in sys.orig_argv:
    with suppress(ImportError):  # the Python of one test has no packages but Spark's copy
        import pyarrow.parquet  # noqa: F401
        import pyspark.worker  # noqa: F401

        import bucketfmt_spark.source.datasource
        import bucketfmt_spark.source.sink
        import bucketfmt_spark.source.stream_source  # noqa: F401
