"""The quick part of the fault campaigns; `make faults` has the whole, and docs/reliability.md its figures."""

import sys

import pytest
from campaigns import BAD, CAMPAIGNS


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="kills and measures as Linux does")
@pytest.mark.filterwarnings("ignore")  # odd files make their readers remark on them
@pytest.mark.parametrize("name", CAMPAIGNS)
def test_nothing_is_lost_and_nothing_silently_wrong(name, tmp_path):
    campaign = CAMPAIGNS[name]
    outcomes = campaign.run(campaign.quick, tmp_path, seed=1)  # type: ignore[call-arg]
    assert outcomes.total() > 0
    assert not {what: count for what, count in outcomes.items() if what in BAD}, outcomes
