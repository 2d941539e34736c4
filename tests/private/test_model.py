"""Private: a loop of one's own, in which each step is clipped, noised and charged."""

import math

import numpy as np
import pytest
import torch
from small_networks import classifier, digits
from torch.nn.functional import cross_entropy

from dpkit import Budget, Private
from dpkit.privacy import Release, SampledGaussian, pld
from dpkit.privacy.accountants.filters import OverBudget
from dpkit.private import BudgetSpent, release

BUDGET = {"epsilon": 8, "delta": 1e-5, "steps": 3, "batch_size": 40}


def each(net):
    return lambda x, y: cross_entropy(net(x), y, reduction="none")


def private_of(net, *data, rate=1.0, **others):
    optimizer = torch.optim.SGD(net.parameters(), rate)
    return Private(net, optimizer, *data, **{**BUDGET, **others})


@pytest.fixture
def data():
    x, y = digits()
    return x.flatten(1), y


@pytest.fixture
def net():
    return classifier()


@pytest.fixture
def no_noise(monkeypatch):
    """What would be noised, as it is."""
    sums = []

    def kept(found, *, noise_std, rng):
        sums.append((found, noise_std))
        return found

    monkeypatch.setattr(release, "noised", kept)
    return sums


def test_the_classifier_of_the_digits_is_learnt_in_the_loop_of_the_readme(data):
    net, (x_all, y_all) = classifier(), data
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    private = Private(
        net, optimizer, *data, epsilon=8, delta=1e-5, steps=150, batch_size=256, reproducible_seed=0
    )
    for x, y in private:
        private.step(lambda x, y: cross_entropy(net(x), y, reduction="none"), x, y)
    # trained so with 20 seeds it was never below 0.88
    assert (net(x_all).argmax(1) == y_all).float().mean() > 0.7
    assert private.guarantee().epsilon <= 8
    assert "(8." not in private.statement()


def test_a_step_goes_along_the_clipped_mean_that_autograd_gives(data, net, no_noise):
    private = private_of(net, *data, max_grad_norm=0.5, reproducible_seed=1)
    before = [p.detach().clone() for p in net.parameters()]
    x, y = next(iter(private))
    wanted = [torch.zeros_like(p) for p in before]
    for row, label in zip(x, y, strict=True):
        loss = cross_entropy(net(row[None]), label[None])
        one = torch.autograd.grad(loss, list(net.parameters()))
        norm = torch.cat([g.flatten() for g in one]).norm()
        for total, g in zip(wanted, one, strict=True):
            total += g * min(1.0, 0.5 / norm.item())
    private.step(each(net), x, y)
    for old, new, total in zip(before, net.parameters(), wanted, strict=True):
        torch.testing.assert_close(new.detach(), old - total / 40, rtol=1e-4, atol=1e-6)


def test_the_noise_is_what_the_certified_accountant_asks_for(data, net, no_noise):
    private = private_of(net, *data, max_grad_norm=0.5)
    for x, y in private:
        private.step(each(net), x, y)
    noise = no_noise[0][1] / 0.5
    assert len(no_noise) == 3
    ledger = [Release(SampledGaussian(noise, 40 / 1797), 3)]
    assert 7.9 < pld.epsilon(ledger, delta=1e-5).epsilon <= 8
    assert private.ledger == ledger


def test_every_step_is_charged_and_none_beyond_the_budget_runs(data, net):
    private = private_of(net, *data)
    assert private.guarantee().epsilon == 0
    epsilons = []
    for x, y in private:
        private.step(each(net), x, y)
        epsilons.append(private.guarantee().epsilon)
    assert epsilons == sorted(epsilons)
    assert epsilons[-1] == private.guarantee(planned=True).epsilon <= 8
    assert list(private) == []
    with pytest.raises(BudgetSpent, match="all 3 steps"):
        private.step(each(net), x, y)


def test_a_batch_can_be_used_once(data, net):
    private = private_of(net, *data)
    x, y = next(iter(private))
    private.step(each(net), x, y)
    with pytest.raises(RuntimeError, match="already used"):
        private.step(each(net), x, y)
    assert private.steps_done == 1


def test_a_loop_without_a_step_ends_with_a_sentence(data, net):
    with pytest.raises(RuntimeError, match="no step was made"):
        for _ in private_of(net, *data):
            pass


def test_the_whole_data_set_is_not_taken_for_a_batch(data, net):
    private = private_of(net, *data)
    next(iter(private))
    with pytest.raises(ValueError, match="from one record of the batch"):
        private.step(each(net), *data)


def test_rows_of_the_data_set_itself_are_not_taken_for_a_batch(data, net):
    private = private_of(net, *data)
    x, y = next(iter(private))
    with pytest.raises(ValueError, match="slice of the data set"):
        private.step(each(net), data[0][: len(x)], y)


def test_an_earlier_batch_is_not_taken_for_the_present_one(data, net):
    private = private_of(net, *data)
    draws = iter(private)
    first, labels = next(draws)
    private.step(each(net), first, labels)
    x, y = next(draws)
    with pytest.raises(
        ValueError, match=r"from one record of the batch|not of the batch just drawn"
    ):
        private.step(each(net), first, y)
    private.step(each(net), x, y)


@pytest.mark.parametrize(
    "change",
    [
        torch.zeros_like,
        lambda x: x - x.mean(0),
        lambda x: x + 0.1,
        lambda x: x.flip(0),
        lambda x: x[:1].expand(x.shape),
        lambda x: x.t().reshape(x.shape),
        lambda x: x.as_strided((len(x), 2), (1, 64)),
        lambda x: x.as_strided((len(x), 9), (63, 1)),
        lambda x: x.view(torch.int32),
    ],
)
def test_what_is_not_the_batch_row_by_row_is_not_taken_for_it(data, net, change):
    private = private_of(net, *data)
    x, y = next(iter(private))
    with pytest.raises(ValueError, match="not of the batch just drawn"):
        private.step(each(net), change(x), y)
    assert private.steps_done == 0


def test_a_batch_that_was_changed_in_place_is_not_taken(data, net):
    private = private_of(net, *data)
    x, y = next(iter(private))
    x -= x.mean(0)
    with pytest.raises(ValueError, match="changed in place"):
        private.step(each(net), x, y)


def test_rows_are_changed_by_a_transform_or_in_the_loss(data, net):
    private = private_of(net, *data, transform=lambda x: x + 0.1 * torch.randn_like(x))
    x, y = next(iter(private))
    private.step(lambda x, y: each(net)(2 * x, y), x, y)
    assert private.steps_done == 1


@pytest.mark.parametrize("columns", [1, 5])
def test_views_of_labels_are_taken(data, net, columns):
    private = private_of(net, *data)
    x, y = next(iter(private))
    private.step(lambda x, y: (net(x)[:, :1] * y).sum(1), x, y[:, None].expand(-1, columns))
    assert private.steps_done == 1


def test_a_view_of_the_batch_is_taken_for_it(net):
    x, _ = digits()
    private = private_of(net, x)
    (images,) = next(iter(private))
    private.step(lambda rows: net(rows).square().sum(1), images.flatten(1))
    assert private.steps_done == 1


def test_empty_batches_are_steps_of_noise(data, net):
    private = private_of(net, *data, batch_size=1, steps=12)
    for x, y in private:
        private.step(each(net), x, y)
    sizes = private.curves["batch_size"]
    assert 0 in set(sizes)  # but for 1 in 200,000 runs: the chance is 1 - (1 - 1/e)^12
    assert all(torch.isfinite(p).all() for p in net.parameters())


def test_one_seed_gives_one_run_and_no_seed_another(data):
    def weights(seed):
        net = classifier()
        private = private_of(net, *data, reproducible_seed=seed)
        for x, y in private:
            private.step(each(net), x, y)
        return torch.cat([p.detach().flatten() for p in net.parameters()])

    assert torch.equal(weights(3), weights(3))
    assert not torch.equal(weights(3), weights(4))
    assert not torch.equal(weights(None), weights(None))


def test_a_seed_is_said_in_the_statement_and_not_which(data, net):
    words = private_of(net, *data, reproducible_seed=987654321).statement()
    assert "fixed seed" in words
    assert "987654321" not in words
    assert "seed" not in private_of(net, *data).statement()


def test_a_declared_size_is_not_said_to_be_taken_as_public(data, net):
    assert "the number of records, 1797, is public" in private_of(net, *data).statement()
    declared = private_of(net, *data, public_size=2000)
    assert "is public" not in declared.statement()
    assert declared.ledger[0].mechanism.sample_rate == 40 / 2000


def test_a_run_that_stopped_early_states_the_price_of_its_plan(data, net):
    private = private_of(net, *data)
    x, y = next(iter(private))
    private.step(each(net), x, y)
    assert private.guarantee().epsilon < private.guarantee(planned=True).epsilon
    words = private.statement()
    assert "where released values or public numbers alone decided that" in words
    assert "after 1" not in words
    assert "training after 1 of 3 steps" in private.statement(stopped_by="released values")
    with pytest.raises(ValueError, match="stopped_by must be one of released values"):
        private.statement(stopped_by="my loss")


def test_the_critic_step_of_wasserstein_is_one_release(data, net):
    critic = torch.nn.Sequential(torch.nn.Linear(64, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    private = private_of(critic, data[0])
    for (real,) in private:
        private.critic_step(real, torch.rand_like(real))
    assert private.ledger[0].count == 3


def test_images_of_bytes_become_floats_between_minus_one_and_one(net):
    images = torch.randint(256, (200, 64), dtype=torch.uint8)
    (batch,) = next(iter(private_of(net, images)))
    assert batch.dtype == torch.float32
    assert -1 <= batch.min() < 0 < batch.max() <= 1


def test_what_is_saved_holds_the_statement_and_the_weights(data, net, tmp_path):
    from dpkit.private import saved

    private = private_of(net, *data)
    for x, y in private:
        private.step(each(net), x, y)
    private.save(tmp_path / "net.safetensors")
    other = classifier(seed=1)
    facts = saved.load(tmp_path / "net.safetensors", other)
    assert facts["statement"] == private.statement()
    assert math.isclose(facts["epsilon"], private.guarantee().epsilon)
    assert all(torch.equal(p, q) for p, q in zip(net.parameters(), other.parameters(), strict=True))


def test_a_run_reserves_its_plan_with_its_first_step(data, net, tmp_path):
    budget = Budget(tmp_path / "budget.json", epsilon=8, delta=1e-5)
    private, other = (private_of(net, *data, budget=budget) for _ in range(2))
    assert budget.share_spent() == 0
    private.step(each(net), *next(iter(private)))
    assert budget.share_spent() == 1  # a first run may take all of it, and no other after it
    with pytest.raises(OverBudget):
        private_of(net, *data, budget=budget)
    with pytest.raises(OverBudget):  # it was made when there still was something left
        other.step(each(net), *next(iter(other)))
    assert other.steps_done == 0


def test_a_step_computes_gradients_where_they_were_switched_off(data, net):
    private = private_of(net, *data)
    x, y = next(iter(private))
    with torch.no_grad():
        private.step(each(net), x, y)
    assert private.steps_done == 1


def test_several_tensors_and_bits_are_taken(net):
    x = torch.rand(200, 64) > 0.5
    weights = np.random.default_rng(0).random(200)
    private = private_of(net, x, np.arange(200) % 10, weights)
    for bits, y, weight in private:
        assert bits.dtype == weight.dtype == torch.float32
        private.step(lambda x, y, w: w * each(net)(x, y), bits, y, weight)
