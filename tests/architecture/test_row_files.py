"""Base files are known as row files: few modules know that they are of parquet."""

from __future__ import annotations

from pathlib import Path

from tests.architecture.test_layers import MODULES, PACKAGE, imported_modules

KNOW_PARQUET = {
    "check/contents/slice_contents.py",  # the checksums of pages
    "dump/base_file.py",
    "rows/parquet/copying.py",
    "rows/parquet/key_footer.py",
    "rows/row_file.py",
    "write/files/table_codec.py",
}


def test_few_modules_know_the_format_of_base_files() -> None:
    def path_of(module: Path) -> str:
        return module.relative_to(PACKAGE).as_posix()

    knowing = {
        path_of(module)
        for module in MODULES
        if "bucketfmt.rows.parquet.base_file" in imported_modules(module)
    }
    assert knowing == KNOW_PARQUET, "open base files by open_base_file, blocks by open_row_block"
