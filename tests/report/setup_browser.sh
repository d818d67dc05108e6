#!/bin/sh
# Have a Chromium for tests/report: one that is installed, else Debian's where this is root, else
# the one that Playwright downloads.
#
# usage: tests/report/setup_browser.sh PYTHON        PYTHON: an interpreter that has playwright
set -eu

for command in chromium-headless-shell chromium chromium-browser google-chrome; do
    if command -v "$command" >/dev/null; then exit 0; fi
done

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    if apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=120 \
        chromium-headless-shell fonts-dejavu-core >/dev/null; then exit 0; fi
    echo "setup_browser.sh: apt-get installed no chromium-headless-shell; trying Playwright's" >&2
fi

if ! "$1" -m playwright install chromium >/dev/null; then
    echo "setup_browser.sh: there is no Chromium, and none could be installed: install one" \
        "(Debian: apt-get install chromium-headless-shell), for tests/report" >&2
    exit 1
fi
