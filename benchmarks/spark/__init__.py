"""The adapter on Spark, timed beside Spark's own tables."""
