"""Whatever befalls a writer of tables of version 9, at whichever operation."""

from __future__ import annotations

import pytest

from soak.works import SAMPLE, Kind, Work
from tests.reliability.struck import check_recovery, check_work, names_of

pytestmark = pytest.mark.filterwarnings("ignore:the table lock could not be given back")
PIECES = [(kind, work) for kind, work in SAMPLE if kind.version == 9]


@pytest.mark.parametrize(("kind", "work"), PIECES, ids=names_of)
def test_every_fault_at_every_operation(kind: Kind, work: Work) -> None:
    check_work(kind, work)


def test_who_recovers_is_struck_too() -> None:
    check_recovery(9)
