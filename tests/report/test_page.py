"""The page in a real browser: what it shows, what a reader does with it, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page

import bucketfmt as bf
from bucketfmt.check.report import Finding
from bucketfmt.report.table_report import TableReport
from bucketfmt.texts import size_text
from tests.report.conftest import OpenPage
from tests.report.made import HOT, instant, made_contents

Golden = Callable[[str, str], Path]

FINDINGS = (
    Finding.of("B001", "two file groups", partition="day=2026-05-02", bucket=5, paths=["a", "b"]),
    Finding.of("B002", "a file of another attempt", partition="day=2026-05-03"),
)


def sheet(page: Page, name: str) -> Locator:
    return page.locator(f".sheet[data-sheet={name}]")


def rows_of(place: Locator) -> list[list[str]]:
    """The texts of a sheet's rows."""
    texts = "rows => rows.map(row => [...row.cells].map(cell => cell.textContent.trim()))"
    found: list[list[str]] = place.locator("tbody tr").evaluate_all(texts)
    return found


def column(place: Locator, title: str) -> list[str]:
    heads = [text.strip() for text in place.locator("thead th").all_inner_texts()]
    return [row[heads.index(title)] for row in rows_of(place)]


def spelled(text: str) -> str:
    """The text as people are to see it."""
    for unseen in "\u2028\x1b\u202e":
        text = text.replace(unseen, unseen.encode("unicode_escape").decode())
    return text


def test_a_table_that_hudi_wrote(golden: Golden, open_page: OpenPage) -> None:
    table = bf.open(golden("1.2.0", "mor"))
    page = open_page(table.report().html)
    assert page.title() == "mor: table report"
    assert page.locator(".verdict").inner_text() == "Clean"
    groups = table.inspect.file_groups().to_pylist()
    shown = {tuple(row[:3]): row[3:] for row in rows_of(sheet(page, "file-groups"))}
    assert shown == {
        (each["partition_path"], str(each["bucket_id"]), each["file_id"]): [
            size_text(each["base_size"] + each["log_size"]),
            size_text(each["base_size"]),
            str(each["base_rows"]),
            str(each["log_files"]),
            size_text(each["log_size"]),
            each["base_instant"],
        ]
        for each in groups
    }
    commits = table.inspect.commits().to_pylist()
    assert column(sheet(page, "instants"), "Requested") == sorted(
        (each["requested_time"] for each in commits), reverse=True
    )
    advice = table.advise_buckets()
    assert page.locator("#advice code").inner_text() == advice.recommendations[0].call
    told = (page.locator(f".facts {of}").all_inner_texts() for of in ("dt", "dd"))
    facts = dict(zip(*told, strict=True))
    assert facts["index"] == str(table.index)
    assert facts["merge mode"] == "EVENT_TIME_ORDERING"
    columns = page.locator(".columns tbody tr").all_inner_texts()
    assert columns == [f"{field.name}\t{field.type}" for field in table.schema]


def test_findings_have_their_evidence_and_fix_and_are_filtered(open_page: OpenPage) -> None:
    page = open_page(TableReport(made_contents(findings=FINDINGS)).html)
    assert page.locator(".verdict").inner_text() == "1 error and 1 warning"
    first, second = page.locator(".finding").all()
    for shown, finding in ((first, FINDINGS[0]), (second, FINDINGS[1])):
        for text in (finding.id, finding.title, finding.evidence, finding.cause, finding.fix):
            assert text in shown.inner_text()
    assert "partition day=2026-05-02 bucket 5" in first.inner_text()
    assert "may be lost or wrong" in first.inner_text()
    first.locator("summary").click()
    assert first.locator(".paths li").all_inner_texts() == ["a", "b"]
    page.get_by_label("error (1)").uncheck()
    assert (first.is_visible(), second.is_visible()) == (False, True)
    page.get_by_label("error (1)").check()
    page.locator("#finding-tools input[type=search]").fill("Another ATTEMPT")
    assert (first.is_visible(), second.is_visible()) == (False, True)
    assert page.locator("#finding-tools .status").inner_text() == "1 of 2 findings"


def test_tables_are_sorted_filtered_and_turned_by_keys(open_page: OpenPage) -> None:
    contents = made_contents(5, 9)
    page = open_page(TableReport(contents).html)
    groups = sheet(page, "file-groups")
    status, first_rows = groups.locator(".status"), rows_of(groups)
    assert status.inner_text() == "1 to 20 of 45 file groups and empty buckets"
    assert groups.locator("th[aria-sort=descending]").inner_text().startswith("Size")

    groups.get_by_role("button", name="Bucket").focus()
    page.keyboard.press("Enter")
    assert groups.locator("th[aria-sort]").inner_text().startswith("Bucket")
    assert column(groups, "Bucket") == [str(n) for n in (8,) * 5 + (7,) * 5 + (6,) * 5 + (5,) * 5]
    page.keyboard.press("Enter")
    assert column(groups, "Bucket")[:6] == ["0", "0", "0", "0", "0", "1"]
    page.keyboard.press("Shift+Tab")  # to the column before
    page.keyboard.press("Space")
    assert column(groups, "Partition") == sorted(column(groups, "Partition"))

    groups.get_by_role("button", name="Next").click()
    groups.get_by_role("button", name="Next").press("Enter")
    assert status.inner_text() == "41 to 45 of 45 file groups and empty buckets"
    assert groups.get_by_role("button", name="Next").is_disabled()
    search = groups.get_by_label("Filter")
    search.fill("DAY=2026-05-02 00000003")
    ((partition, bucket, *_),) = rows_of(groups)
    assert (partition, bucket) == ("day=2026-05-02", "3")
    assert status.inner_text() == "1 to 1 of 1 file groups and empty buckets that match, of 45"
    search.fill("nothing has this")
    assert (rows_of(groups), status.inner_text()[:2]) == ([], "0 ")

    search.fill("")
    groups.get_by_role("button", name="Size").click()
    assert rows_of(groups) == first_rows, "the script writes values as the page did"


def test_partitions_have_their_figures(open_page: OpenPage) -> None:
    contents = made_contents(3, 8)
    page = open_page(TableReport(contents).html)
    partitions = sheet(page, "partitions")
    before = rows_of(partitions)
    assert contents.advice is not None
    by_path = {each.partition_path: each for each in contents.advice.partitions}
    for path, size, suggested in zip(
        *(column(partitions, title) for title in ("Partition", "Size", "Suggested buckets")),
        strict=True,
    ):
        assert size == size_text(by_path[path].bytes)
        assert suggested == str(by_path[path].suggested)
    for title in ("Partition", "Size"):
        partitions.get_by_role("button", name=title, exact=True).click()
    assert rows_of(partitions) == before
    hidden = open_page(TableReport(contents).html, java_script_enabled=False)
    assert rows_of(sheet(hidden, "partitions")) == before
    assert hidden.locator(".tools").first.is_hidden()


def test_the_heat_map_tells_its_cells(open_page: OpenPage) -> None:
    contents = made_contents(4, 8)
    page = open_page(TableReport(contents).html)
    rows = contents.file_groups.to_pylist()
    cells, told = page.get_by_role("application"), page.locator("output.cell")
    cells.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    row = rows[3 * 8 + 2]
    assert told.inner_text() == (
        f"day=2026-05-04, bucket 2 · {size_text(row['base_size'] + row['log_size'])} · "
        f"{row['base_rows']:,} rows in base files · 2 log files ({size_text(row['log_size'])})"
    )
    page.keyboard.press("End")
    assert told.inner_text().startswith("day=2026-05-04, bucket 7 · 0 B · 0 rows")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    assert page.locator("#bars figcaption").inner_text() == "Buckets of day=2026-05-03"

    box = cells.locator("svg").bounding_box()
    assert box is not None
    place = {"x": box["width"] * (HOT + 0.5) / 8, "y": box["height"] / 8}
    cells.locator("svg").click(position=place)
    assert told.inner_text().startswith(f"day=2026-05-01, bucket {HOT} · ")
    assert page.locator("#bars figcaption").inner_text() == "Buckets of day=2026-05-01"
    assert page.locator("#bars .top").inner_text() == size_text(rows[HOT]["base_size"])
    page.get_by_role("button", name="Show the buckets of day=2026-05-04").press("Enter")
    assert page.locator("#bars figcaption").inner_text() == "Buckets of day=2026-05-04"

    page.get_by_label("Bytes", exact=True).focus()
    page.keyboard.press("ArrowRight")
    shown = [page.locator(f"g.of-{each}").is_visible() for each in ("bytes", "rows", "logs")]
    assert shown == [False, True, False]
    assert page.locator(".legend.of-rows").is_visible()


HOSTILE = (
    '<img src=x onerror="alert(1)">',
    "</script><script>alert(2)</script>",
    "\"'><svg onload=alert(3)>",
    "<!--<script>",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt;&#60;",
    "javascript:alert(4)",
    "a\u2028b\x1b[31m\u202egnp.exe",
)


def test_hostile_names_and_values_are_text(open_page: OpenPage) -> None:
    paths = [f"{number}={text}" for number, text in enumerate(HOSTILE)]
    everything = " ".join(HOSTILE)
    finding = Finding.of("T002", everything, partition=paths[1], paths=HOSTILE, instants=HOSTILE)
    contents = made_contents(
        paths,
        3,
        name=everything,
        findings=[replace(finding, fix=everything)],
        columns=[(text, everything) for text in HOSTILE],
        file_id="{bucket:08d}" + HOSTILE[1] + "{number}",
    )
    facts = {**contents.facts, "x": everything}
    page = open_page(TableReport(replace(contents, unreadable=(everything,), facts=facts)).html)
    counts = {kind: page.locator(kind).count() for kind in ("script", "style", "img", "iframe")}
    assert counts == {"script": 2, "style": 1, "img": 0, "iframe": 0}
    assert page.locator("[onload], [onerror], [onclick], [style]").count() == 0
    for place in ("h1", ".finding dd", ".unreadable", ".columns td", ".facts div:last-child dd"):
        assert page.locator(place).first.inner_text() == spelled(everything), place
    groups = sheet(page, "file-groups")
    groups.get_by_role("button", name="Partition").click()  # now the script has made the rows
    assert sorted(set(column(groups, "Partition"))) == sorted(map(spelled, paths))[:7]
    assert HOSTILE[1] in rows_of(groups)[0][2]
    first = spelled(paths[0])
    page.get_by_role("button", name=f"Show the buckets of {first}").click()
    assert page.locator("#bars figcaption").inner_text() == f"Buckets of {first}"
    assert page.locator("img").count() == 0


def test_the_policy_refuses_other_scripts_and_requests(open_page: OpenPage) -> None:
    html = TableReport(made_contents()).html
    planted = "<main><script>document.title = 'run'</script><p onclick='x()' style='color: red'>"
    told: list[str] = []
    page = open_page(html.replace("<main>", planted), told)
    page.evaluate("fetch('http://127.0.0.1:9/').catch(() => 0)")
    assert page.title() == "trips: table report"
    refused = " ".join(told)
    for kind in ("inline script", "inline event handler", "inline style", "connect"):
        assert kind in refused.lower(), kind
    assert "request:" not in refused


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phone_dark_mode_and_print(open_page: OpenPage, scheme: str) -> None:
    html = TableReport(made_contents(30, 64, findings=FINDINGS)).html
    page = open_page(html, viewport={"width": 360, "height": 740}, color_scheme=scheme)
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide == 360, "tables scroll, the page does not"
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(251, 251, 249)", "dark": "rgb(20, 24, 28)"}[scheme]
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("nav").is_hidden()
    assert page.locator(".tools").first.is_hidden()
    assert page.locator(".finding .paths").first.is_visible(), "details are open"
    assert "20 of 30 partitions are printed" in sheet(page, "partitions").inner_text()


def test_what_a_screen_reader_is_told(open_page: OpenPage) -> None:
    page = open_page(TableReport(made_contents(findings=FINDINGS)).html)
    levels = page.locator("h1, h2, h3").evaluate_all("all => all.map(each => +each.tagName[1])")
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert page.locator("svg:not([aria-label], [aria-hidden], [aria-hidden] *)").count() == 0
    assert page.locator("th:not([scope])").count() == 0
    names = page.locator("input").evaluate_all("all => all.map(each => each.labels.length)")
    assert set(names) == {1}
    assert page.locator("html[lang=en]").count() == 1
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the findings"
    assert page.locator(".instants svg").get_attribute("aria-label") == (
        "3 kinds of instants from 2026-05-01 00:00:00 to 2026-05-09 22:00:00"
    )
    pending = page.locator(".pending li").inner_text()
    assert pending.startswith(f"compaction {instant(214)} is requested since 2026-05-09")


def test_twenty_thousand_file_groups_are_few_elements(open_page: OpenPage) -> None:
    """Figures are in benchmarks/RESULTS.md; this holds what they rest on."""
    html = TableReport(made_contents(200, 100)).html
    assert len(html) < 3_000_000
    page = open_page(html)
    assert page.evaluate("document.querySelectorAll('*').length") < 3000
    assert (
        sheet(page, "file-groups").locator(".status").inner_text().startswith("1 to 20 of 20,000")
    )
    page.get_by_role("application").focus()
    page.keyboard.press("End")
    assert page.locator("output.cell").inner_text().startswith("day=2026-05-01, bucket 99")


def test_a_notebook_shows_the_page_in_a_frame(open_page: OpenPage) -> None:
    report = TableReport(made_contents(name='"><script>alert(1)</script>'))
    assert repr(report) == '<bucketfmt.TableReport of "><script>alert(1)</script>: clean>'
    cell = report._repr_html_()
    page = open_page(f"<title>notebook</title><div>{cell}</div>")
    frame = page.frame_locator("iframe")
    assert frame.locator("h1").inner_text() == '"><script>alert(1)</script>'
    groups = frame.locator(".sheet[data-sheet=file-groups]")
    groups.get_by_role("button", name="Bucket").click()
    assert rows_of(groups)[0][1] == "7"
    assert page.locator("script").count() == 0
