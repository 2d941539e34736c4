"""What every paper's package offers, and when it is imported."""

import pytest

from dpkit.papers import PAPERS, named, plans_of

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.NAME)
def test_a_package_offers_settings_claims_modules_and_its_algorithm(paper):
    assert named(paper.NAME) is paper
    assert paper.SETTINGS.steps_allowed is not None
    assert paper.CLAIMS is paper.claims.CLAIMS
    new = "new_classifier" if paper.NAME == "adadp" else "new_gan"
    assert getattr(paper, new) is getattr(paper.algorithm, new)
    assert plans_of(paper.NAME) is paper.experiments.PLANS
    for plan in paper.experiments.PLANS.values():
        assert getattr(plan, "func", plan).__doc__
    for nothing in ("nothing", "_nothing"):
        with pytest.raises(AttributeError, match=f"no attribute '{nothing}'"):
            getattr(paper, nothing)


def test_a_paper_that_is_not_there_is_named_beside_those_that_are():
    with pytest.raises(ValueError, match=r"paper must be one of dp_cgan, .*; got 'dp_gan'"):
        plans_of("dp_gan")
