"""The claims of DP-CGAN against numbers found independently."""

import pytest

from dpkit.common import records
from dpkit.papers.claims import check
from dpkit.papers.dp_cgan import claims
from dpkit.privacy import SampledGaussian

BY_ID = {claim.id: claim for claim in claims.CLAIMS}


def test_the_notebook_log_to_nine_digits():
    for steps, printed in claims.NOTEBOOK_PRINTS.items():
        assert f"{claims.notebook_epsilon(steps):.9g}" == f"{printed:.9g}"
        said = claims.epsilon(SampledGaussian(0.6, claims.NOTEBOOK_RATE), steps)
        assert said < printed - 1


def test_one_step_more_than_charged_would_overspend():
    mechanism = SampledGaussian(claims.CODE_NOISE, claims.CODE_RATE)
    steps = claims.charged_steps()
    assert claims.epsilon(mechanism, steps) <= 9.6 < claims.epsilon(mechanism, steps + 1)


def test_the_real_row_is_that_of_the_codes_protocol_and_of_no_other():
    """All that the text leaves open moves the value by far less than it is from the other."""
    printed, trained = (
        check(BY_ID[f"dp_cgan/table-1-{name}"]) for name in ("real-row", "as-trained")
    )
    assert (printed.verdict, trained.verdict) == ("holds", "fails")
    record = records.read_json(claims.REAL_EVIDENCE.path)["values"]
    spread = record["highest_255"] - record["lowest_255"]
    assert spread < printed.claim.tolerance < 0.1 * (trained.computed - printed.computed)


def test_the_corrections_follow_from_the_settings():
    assert pytest.approx(1.12) == claims.ONE_CLIP
    assert pytest.approx(1.12 / 2) == claims.REAL_PART
    assert pytest.approx(1.12 / 4) == claims.BOTH_PARTS
