"""README.md is PyPI's page: its links are absolute, below the addresses of the project, and lead to
files and pages that exist. mkdocs.yml states the same addresses.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
LINK = re.compile(r"\]\(\s*([^)\s]+)\s*\)")


def urls() -> dict[str, str]:
    """Return `[project.urls]`; Python 3.10 reads no TOML."""
    block = (ROOT / "pyproject.toml").read_text().partition("[project.urls]\n")[2]
    return dict(re.findall(r'^(\w+) = "([^"]+)"$', block.partition("\n[")[0], re.MULTILINE))


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as mkdocs makes them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", head).strip().lower().replace(" ", "-") for head in heads}


def test_urls() -> None:
    assert {"Homepage", "Documentation", "Source", "Issues", "Changelog"} <= set(urls())


def test_links_of_the_readme_lead_somewhere() -> None:
    repository, documentation = urls()["Source"], urls()["Documentation"]
    raw = repository.replace("//github.com/", "//raw.githubusercontent.com/") + "/main/"
    files = {f"{repository}/blob/main/": ROOT, raw: ROOT}
    links = LINK.findall(README)
    assert len(links) > 20
    for link in links:
        assert link.startswith("https://"), f"{link}: PyPI shows README.md without the repository"
        for base, folder in files.items():
            if link.startswith(base):
                assert (folder / link.removeprefix(base).partition("#")[0]).is_file(), link
        if link.startswith(documentation):
            path, _, anchor = link.removeprefix(documentation).partition("#")
            assert path.endswith("/"), f"{link}: addresses of pages end with a slash"
            at = ROOT / "docs" / path.rstrip("/")
            page = at / "README.md" if at.is_dir() else at.with_name(f"{at.name}.md")
            assert page.is_file(), link
            assert not anchor or anchor in anchors(page), link
        elif not link.startswith(tuple(files)):
            assert link in urls().values(), f"{link}: not below an address of the project"


def test_the_changelog_and_the_site_have_the_same_addresses() -> None:
    repository, documentation = urls()["Source"], urls()["Documentation"]
    assert (ROOT / urls()["Changelog"].removeprefix(f"{repository}/blob/main/")).is_file()
    site = dict(
        re.findall(r"^(\w+_ur[li]): (\S+)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    )
    assert site == {
        "site_url": documentation,
        "repo_url": repository,
        "edit_uri": "edit/main/docs/",
    }
    stated = re.findall(r"^(\w+_ur[li]): (\S+)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert dict(stated) == {
        "site_url": documentation,
        "repo_url": repository,
        "edit_uri": "edit/main/docs/",
    }
