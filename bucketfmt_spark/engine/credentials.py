"""Credentials of the session's Hadoop settings, which are not sent with the functions of tasks.

Spark gives its settings to each task as local properties. So a credential is pickled as the name of
its setting, and a task finds the value there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark import TaskContext
from pyspark.sql import SparkSession

import bucketfmt as bf

__all__ = ["Credential", "setting_of"]


class Credential(str):
    """A credential that a setting of the session states. Pickles as the name of the setting."""

    setting: str

    def __new__(cls, value: str, setting: str) -> Credential:
        """Return the credential.

        Args:
            value: The secret.
            setting: The setting of Spark that states it, `spark.hadoop.fs.s3a.secret.key`.
        """
        made = super().__new__(cls, value)
        made.setting = setting
        return made

    def __reduce__(self) -> tuple[Callable[[str], Credential], tuple[str]]:
        return _find, (self.setting,)

    def __repr__(self) -> str:
        return f"<{self.setting}>"


def setting_of(spark: SparkSession) -> Callable[[str], Credential | None]:
    """Return a function that returns a setting of Hadoop in a session; None if it is not set.

    The settings are those of Spark that begin with `spark.hadoop.`. In classic sessions those of
    core-site.xml and of the Hadoop configuration of the SparkContext count too: they become
    settings of the session, so that tasks have them. As to Hadoop, blanks around a value are no
    part of it, which files of settings often have.
    """

    def find(name: str) -> Credential | None:
        setting = f"spark.hadoop.{name}"
        stated = (spark.conf.get(setting, None) or "").strip()
        value = stated or (_of_hadoop(spark, name) or "").strip()
        if not value:
            return None
        if not stated:
            spark.conf.set(setting, value)
        return Credential(value, setting)

    return find


def _of_hadoop(spark: Any, name: str) -> str | None:
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return None
    found = spark.sparkContext._jsc.hadoopConfiguration().get(name)
    return None if found is None else str(found)


def _find(setting: str) -> Credential:
    """Return the credential in a task, or in a process that has a session."""
    task, session = TaskContext.get(), None
    value = None if task is None else task.getLocalProperty(setting)
    if value is None:
        session = SparkSession.getActiveSession()
        value = None if session is None else session.conf.get(setting, None)
    if value is None:
        raise bf.StorageError(
            f"neither this task nor a session here has the setting {setting}, which the driver "
            "took the credential from; give storage_options="
        )
    return Credential(value.strip(), setting)
