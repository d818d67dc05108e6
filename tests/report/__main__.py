"""Takes the pictures of docs/how-to/report.md: `python -m tests.report`."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

from bucketfmt.check.report import Finding
from bucketfmt.report.table_report import TableReport
from tests.report.conftest import FLAGS, find_browser
from tests.report.made import made_contents

FIGURES = Path(__file__).parents[2] / "docs/figures"
ID = "00000005-{}-4c8a-9b1e-62680161c463-0"
FINDINGS = (
    Finding.of(
        "B001",
        f"file groups {ID.format('1a2b3c4d-0000')} (88.2 MiB, 20260502101500123) and "
        f"{ID.format('9f8e7d6c-0000')} (4.1 MiB, 20260504221112001)",
        partition="day=2026-05-14",
        bucket=5,
        paths=[f"day=2026-05-14/{ID.format('1a2b3c4d-0000')}_3-11-0_20260502101500123.parquet"],
    ),
)


def main() -> None:
    page_html = TableReport(made_contents(20, 64, findings=FINDINGS)).html
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder, "report.html")
        file.write_text(page_html)
        browser = playwright.chromium.launch(executable_path=find_browser(), args=FLAGS)
        for name, place, options in (
            ("report-desktop", None, {"viewport": {"width": 1100, "height": 860}}),
            (
                "report-buckets",
                "#buckets",
                {"viewport": {"width": 1100, "height": 1180}, "color_scheme": "dark"},
            ),
            (
                "report-phone",
                "#timeline",
                {"viewport": {"width": 375, "height": 740}, "device_scale_factor": 1},
            ),
        ):
            page = browser.new_context(reduced_motion="reduce", **options).new_page()
            page.goto(file.as_uri() + (place or ""))
            page.screenshot(path=FIGURES / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
