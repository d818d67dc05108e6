"""The machinery of jobs: tasks, the exchange by bucket, errors of executors."""
