"""`python -m bucketfmt_spark`, and the file for spark-submit."""

import sys

from bucketfmt_spark.jobs import main

if __name__ == "__main__":
    sys.exit(main())
