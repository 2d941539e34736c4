"""A budget file adds up the runs on one data set, and refuses the one that would exceed it."""

import json
import multiprocessing
import os
import shutil

import pytest
from refusals import refused

from dpkit.privacy import NoGuarantee, Release, SampledGaussian, pld, rdp
from dpkit.privacy.accountants.filters import OverBudget
from dpkit.private import Budget

DATA = "0" * 64


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.json"


@pytest.fixture
def budget(path):
    return Budget(path, epsilon=2, delta=1e-5)


def ledger(noise=4.0, steps=100):
    return [Release(SampledGaussian(noise, 0.05), steps)]


def runs_until_over(budget, run):
    count = 0
    while True:
        try:
            budget.reserve(run, data=DATA)
        except OverBudget:
            return count
        count += 1


def test_runs_are_taken_until_the_total_would_exceed_the_budget(budget):
    count = runs_until_over(budget, ledger())
    assert count > 3
    # a fixed-in-advance price of all of them, by another accountant's route, is within the budget
    assert rdp.epsilon(ledger(steps=100 * count), delta=1e-5).epsilon <= 2
    # and one more would not be, at the order that was fixed
    assert rdp.epsilon(ledger(steps=100 * (count + 1)), delta=1e-5).epsilon > 2 * 0.98
    assert 0.9 < budget.share_spent() <= 1


def test_the_order_is_fixed_by_the_first_plan(budget, path):
    orders = set()
    for run in (ledger(), ledger(noise=9.0, steps=3)):
        budget.reserve(run, data=DATA)
        orders.add(json.loads(path.read_text())["order"])
    assert len(orders) == 1


def test_a_first_run_that_fits_by_the_certified_accountant_alone_is_the_only_one(path):
    run = ledger()
    epsilon = pld.epsilon(run, delta=1e-5).epsilon
    assert rdp.epsilon(run, delta=1e-5).epsilon > epsilon
    budget = Budget(path, epsilon=epsilon, delta=1e-5)
    assert runs_until_over(budget, run) == 1
    assert budget.share_spent() == 1
    with pytest.raises(OverBudget):
        budget.reserve(ledger(noise=1e4, steps=1), data=DATA)


def test_a_run_too_large_for_the_whole_budget_is_refused_and_uncharged(path):
    budget = Budget(path, epsilon=0.1, delta=1e-5)
    with pytest.raises(OverBudget, match="take a smaller epsilon"):
        budget.reserve(ledger(noise=1.0), data=DATA)
    assert budget.share_spent() == 0


def test_a_named_run_is_charged_once(budget):
    shares = []
    for steps, run in ((100, "run"), (100, "run"), (101, "run"), (100, "other"), (100, None)):
        budget.reserve(ledger(steps=steps), data=DATA, run=run)
        shares.append(budget.share_spent())
    assert shares[0] == shares[1] < shares[2] < shares[3] < shares[4]


def test_two_runs_with_the_same_noise_are_refused(budget):
    """Releases of one sum at two noise levels and one seed are two equations: they give it away."""
    budget.reserve(ledger(), data=DATA, run="run", seed=5)
    share = budget.share_spent()
    with pytest.raises(ValueError, match="reproducible_seed is that of an earlier run"):
        budget.reserve(ledger(steps=101), data=DATA, seed=5)
    budget.reserve(ledger(), data=DATA, run="run", seed=5)  # the same, resumed
    assert budget.share_spent() == share
    for seed in (6, None, None):
        budget.reserve(ledger(), data=DATA, seed=seed)


def test_neither_data_set_nor_budget_is_another_afterwards_and_under_a_name_parts_add_up(
    budget, path, tmp_path
):
    budget.reserve(ledger(), data=DATA)
    with pytest.raises(ValueError, match=r"another data set.* data='its name' from the start"):
        budget.reserve(ledger(), data="1" * 64)
    with pytest.raises(ValueError, match="fixed by its first run"):
        Budget(path, epsilon=3, delta=1e-5).reserve(ledger(), data=DATA)
    named = Budget(tmp_path / "named.json", epsilon=2, delta=1e-5, data="digits")
    for data in (DATA, "1" * 64):  # the remedy for a split that is drawn anew
        named.reserve(ledger(), data=data)
    assert named.share_spent() == pytest.approx(2 * budget.share_spent())


@pytest.mark.parametrize("content", ["", "{}", '{"runs": [{"renyi": NaN}]}', "[1]"])
def test_a_damaged_file_is_refused(budget, path, content):
    path.write_text(content)
    with pytest.raises(ValueError, match="damaged"):
        budget.reserve(ledger(), data=DATA)


test_budgets_that_cannot_be_are_refused = refused(
    *(({"epsilon": bad}, "epsilon") for bad in (0, float("nan"))),
    ({"delta": 1}, "delta"),
    *(({"data": bad}, "data must be a data set's name") for bad in ("", 5, b"x")),
    ({"path": "no/budget.json"}, "does not exist"),
    call=lambda bad: Budget(**{"path": "budget.json", "epsilon": 1, "delta": 1e-5, **bad}).reserve(
        ledger(), data=DATA
    ),
)


def _reserve(path):
    Budget(path, epsilon=2, delta=1e-5).reserve(ledger(steps=1), data=DATA)


def test_runs_that_begin_together_are_all_charged(path):
    with multiprocessing.get_context("fork").Pool(4) as pool:
        pool.map(_reserve, [path] * 12)
    assert len(json.loads(path.read_text())["runs"]) == 12


def test_a_link_and_another_folder_lead_to_the_same_budget(tmp_path, monkeypatch):
    (tmp_path / "real").mkdir()
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "budget.json").symlink_to(tmp_path / "real" / "budget.json")
    (tmp_path / "other").symlink_to(tmp_path / "links")
    monkeypatch.chdir(tmp_path / "links")
    relative = Budget("budget.json", epsilon=2, delta=1e-5)
    monkeypatch.chdir(tmp_path)
    real = Budget(tmp_path / "real" / "budget.json", epsilon=2, delta=1e-5)
    linked = Budget(tmp_path / "other" / "budget.json", epsilon=2, delta=1e-5)
    shares = []
    for budget in (real, relative, linked):
        budget.reserve(ledger(), data=DATA)
        shares.append([one.share_spent() for one in (real, relative, linked)])
    assert all(len(set(share)) == 1 for share in shares)
    assert shares[0] < shares[1] < shares[2]
    assert (tmp_path / "links" / "budget.json").is_symlink()


def test_a_file_with_two_names_is_refused_and_a_copy_is_a_backup(budget, path, tmp_path):
    budget.reserve(ledger(), data=DATA)
    shutil.copy(budget.path, tmp_path / "backup.json")
    budget.reserve(ledger(), data=DATA)
    os.link(path, tmp_path / "second.json")
    share = Budget(tmp_path / "backup.json", epsilon=2, delta=1e-5).share_spent()
    for name in ("budget.json", "second.json"):
        with pytest.raises(ValueError, match="several names"):
            Budget(tmp_path / name, epsilon=2, delta=1e-5).reserve(ledger(), data=DATA)
    (tmp_path / "second.json").unlink()
    assert budget.share_spent() == pytest.approx(2 * share)


def test_check_refuses_what_reserve_would_and_charges_nothing(budget, path):
    budget.check(ledger(), data=DATA, seed=3)
    assert not path.exists()
    budget.reserve(ledger(), data=DATA, seed=3)
    before = path.read_text()
    budget.check(ledger(), data=DATA)
    with pytest.raises(OverBudget):
        budget.check(ledger(noise=0.5), data=DATA)
    with pytest.raises(ValueError, match="earlier run"):
        budget.check(ledger(), data=DATA, seed=3)
    with pytest.raises(ValueError, match="another data set"):
        budget.check(ledger(), data="1" * 64)
    assert path.read_text() == before


def test_a_run_without_a_guarantee_does_not_fit(budget):
    with pytest.raises(ValueError, match="no order"):
        budget.reserve([Release(NoGuarantee("no noise"))], data=DATA)
    budget.reserve(ledger(), data=DATA)
    with pytest.raises(OverBudget, match="costs inf"):
        budget.reserve([Release(NoGuarantee("no noise"))], data=DATA)
