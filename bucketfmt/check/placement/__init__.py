"""Whether file groups and keys are in the bucket that they belong to."""
