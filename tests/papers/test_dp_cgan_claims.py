"""The claims of DP-CGAN against numbers found independently."""

import pytest

from dpkit.claims import check
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


def test_the_real_row_gives_both_protocols():
    found = check(BY_ID["dp_cgan/table-1-real-row"])
    assert "0.92" in found.explanation
    assert "0.98" in found.explanation


def test_the_corrections_follow_from_the_settings():
    assert pytest.approx(1.12) == claims.ONE_CLIP
    assert pytest.approx(1.12 / 2) == claims.REAL_PART
    assert pytest.approx(1.12 / 4) == claims.BOTH_PARTS
