"""Private: a loop of one's own, in which each step is clipped, noised and charged."""

import numpy as np
import pytest
import torch
from small_networks import FLAT, X, Y, begun, classifier, each, private_of, run
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector

from dpkit.privacy import Release, SampledGaussian, pld
from dpkit.privacy.accountants.filters import OverBudget
from dpkit.private import Budget, BudgetSpent, release, saved


@pytest.fixture
def no_noise(monkeypatch):
    """What would be noised, as it is."""
    sums = []

    def kept(found, *, noise_std, rng):
        sums.append((found, noise_std))
        return found

    monkeypatch.setattr(release, "noised", kept)
    return sums


def test_the_classifier_of_the_digits_is_learnt_in_the_loop_of_the_readme():
    net = classifier()
    private = private_of(
        net,
        optimizer=torch.optim.Adam(net.parameters(), 1e-2),
        steps=150,
        batch_size=256,
        reproducible_seed=0,
    )
    for x, y in private:
        private.step(lambda x, y: cross_entropy(net(x), y, reduction="none"), x, y)
    # trained so with 20 seeds it was never below 0.88
    assert (net(FLAT).argmax(1) == Y).float().mean() > 0.7
    assert private.guarantee().epsilon <= 8
    assert "(8." not in private.statement()


def test_a_step_goes_along_the_clipped_mean_that_autograd_gives(no_noise):
    net, private, x, y = begun(rate=1.0, max_grad_norm=0.5, reproducible_seed=1)
    before = [p.detach().clone() for p in net.parameters()]
    wanted = [torch.zeros_like(p) for p in before]
    for row, label in zip(x, y, strict=True):
        one = torch.autograd.grad(cross_entropy(net(row[None]), label[None]), [*net.parameters()])
        norm = torch.cat([g.flatten() for g in one]).norm()
        for total, g in zip(wanted, one, strict=True):
            total += g * min(1.0, 0.5 / norm.item())
    private.step(each(net), x, y)
    for old, new, total in zip(before, net.parameters(), wanted, strict=True):
        torch.testing.assert_close(new.detach(), old - total / 40, rtol=1e-4, atol=1e-6)


def test_the_noise_is_what_the_certified_accountant_asks_for(no_noise):
    private = run(private_of(max_grad_norm=0.5))
    assert len(no_noise) == 4
    ledger = [Release(SampledGaussian(no_noise[0][1] / 0.5, 40 / 1797), 4)]
    assert 7.9 < pld.epsilon(ledger, delta=1e-5).epsilon <= 8
    assert private.ledger == ledger


def test_every_step_is_charged_and_none_beyond_the_budget_runs():
    private = private_of(net := classifier())
    epsilons = [private.guarantee().epsilon]
    for x, y in private:
        private.step(each(net), x, y)
        epsilons.append(private.guarantee().epsilon)
    assert epsilons == sorted(epsilons)
    assert epsilons[0] == 0
    assert epsilons[-1] == private.guarantee(planned=True).epsilon <= 8
    assert list(private) == []
    with pytest.raises(BudgetSpent, match="all 4 planned steps"):
        private.step(each(net), x, y)


def test_a_loop_without_a_step_ends_with_a_sentence():
    with pytest.raises(RuntimeError, match="no step was made"):
        for _ in private_of():
            pass


def test_neither_the_data_set_nor_an_earlier_batch_is_taken_for_the_batch():
    net, private, x, y = begun()
    for rows, words in (
        ((FLAT, Y), "come from the batch just drawn"),
        ((FLAT[: len(x)], y), "slice of the data"),
    ):
        with pytest.raises(ValueError, match=words):
            private.step(each(net), *rows)
    private.step(each(net), x, y)
    later, labels = next(iter(private))
    with pytest.raises(ValueError, match="batch just drawn"):
        private.step(each(net), x, labels)
    private.step(each(net), later, labels)


@pytest.mark.parametrize(
    "change",
    [
        *(torch.zeros_like, lambda x: x - x.mean(0), lambda x: x + 0.1),
        *(lambda x: x.flip(0), lambda x: x[:1].expand(x.shape)),
        *(lambda x: x.t().reshape(x.shape), lambda x: x.as_strided((len(x), 2), (1, 64))),
        *(lambda x: x.as_strided((len(x), 9), (63, 1)), lambda x: x.view(torch.int32)),
    ],
)
def test_what_is_not_the_batch_row_by_row_is_not_taken_for_it(change):
    net, private, x, y = begun()
    with pytest.raises(ValueError, match="not of the batch just drawn"):
        private.step(each(net), change(x), y)
    assert private.steps_done == 0


def test_rows_are_changed_by_a_transform_or_in_the_loss():
    net, private, x, y = begun(transform=lambda x: x + 0.1 * torch.randn_like(x))
    private.step(lambda x, y: each(net)(2 * x, y), x, y)
    assert private.steps_done == 1


def test_views_of_labels_and_of_images_are_taken():
    net, private, x, y = begun()
    for columns in (1, 5):
        private.step(lambda x, y: (net(x)[:, :1] * y).sum(1), x, y[:, None].expand(-1, columns))
        x, y = next(iter(private))
    net, private, images = begun(X)
    private.step(lambda rows: net(rows).square().sum(1), images.flatten(1))
    assert private.steps_done == 1


def test_one_seed_gives_one_run_and_no_seed_another():
    runs = [run(private_of(reproducible_seed=seed)).net for seed in (3, np.int64(3), 4, None, None)]
    first, same, other, none, again = (parameters_to_vector(net.parameters()) for net in runs)
    assert torch.equal(first, same)
    assert not any(map(torch.equal, (first, none), (other, again)))


def test_the_statement_says_that_there_is_a_seed_and_whose_size_is_public():
    words = private_of(reproducible_seed=987654321).statement()
    assert "fixed seed" in words
    assert "987654321" not in words
    assert "seed" not in private_of().statement()
    assert "the number of records, 1797, is public" in words
    declared = private_of(public_size=2000)
    assert "is public" not in declared.statement()
    assert declared.ledger[0].mechanism.sample_rate == 40 / 2000


def test_what_is_saved_holds_the_statement_and_the_weights(tmp_path):
    private, other = run(private_of()), classifier(seed=1)
    private.save(tmp_path / "net.safetensors")
    facts = saved.load(tmp_path / "net.safetensors", other)
    assert facts["statement"] == private.statement()
    assert facts["epsilon"] == pytest.approx(private.guarantee().epsilon)
    pairs = zip(private.net.parameters(), other.parameters(), strict=True)
    assert all(torch.equal(p, q) for p, q in pairs)


def test_a_run_reserves_its_plan_with_its_first_step(tmp_path):
    budget = Budget(tmp_path / "budget.json", epsilon=8, delta=1e-5)
    private, other = (private_of(budget=budget) for _ in range(2))
    assert budget.share_spent() == 0
    run(private, steps=1)
    assert budget.share_spent() == 1  # a first run may take all of it, and no other after it
    with pytest.raises(OverBudget):
        private_of(budget=budget)
    with pytest.raises(OverBudget):  # it was made when there still was something left
        run(other)
    assert other.steps_done == 0


def test_a_step_computes_gradients_where_they_were_switched_off():
    with torch.no_grad():
        assert run(private_of()).steps_done == 4


def test_several_tensors_and_bits_are_taken():
    x = torch.rand(200, 64) > 0.5
    weights = np.random.default_rng(0).random(200)
    private = private_of(net := classifier(), x, np.arange(200) % 10, weights)
    for bits, y, weight in private:
        assert bits.dtype == weight.dtype == torch.float32
        private.step(lambda x, y, w: w * each(net)(x, y), bits, y, weight)


def test_one_of_several_processes_is_refused_and_one_alone_is_not(monkeypatch):
    """Each of several would spend the budget by itself."""
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert private_of(classifier(), steps=1).plan.steps == 1
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match=r"torchrun started 2 processes.*start one"):
        private_of(classifier(), steps=1)
