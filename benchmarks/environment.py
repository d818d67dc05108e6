"""What a run was measured on: the machine and the versions."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

__all__ = ["describe_environment", "describe_load"]

_PACKAGES = ("bucketfmt", "pyarrow", "numpy", "hudi", "fastavro", "xxhash")


def describe_environment() -> dict[str, str]:
    """Return what a stranger needs to know to compare with these figures."""
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return {
        "processor": _processor(),
        "cores": str(_cores()),
        "memory": f"{_memory_bytes() / (1 << 30):.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": packages,
    }


def describe_load() -> str:
    """Return how many processes were running in the last minute, this one included."""
    return f"{os.getloadavg()[0]:.1f}"


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return f"{line.partition(':')[2].strip()} ({platform.machine()})"
    return platform.processor() or platform.machine()


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
