"""PrivateGan: fit, sample, save."""

import json

import numpy as np
import pytest
import small_networks
import torch
from safetensors import safe_open
from short_runs import assert_covered, checked
from sklearn.base import clone
from small_networks import Critic, Generator, X, Y, pair, private_of
from torch import nn
from torch.nn.functional import one_hot

from dpkit.privacy.accountants.filters import OverBudget
from dpkit.private import Budget, release
from dpkit.private.gan_step import new_gan, step
from dpkit.private.plan import LOSSES, gan_settings
from dpkit.training import generator_on, seeded
from dpkit.training.checkpoint import read_saved

CPU = torch.device("cpu")


def gan_of(*networks, **others):
    return small_networks.gan_of(*networks, **{"batch_size": 64, "n_critic": 2, **others})


@pytest.fixture(scope="module")
def fitted():
    return gan_of().fit(X, Y, steps=6)


class Pretrained(nn.Module):
    """A critic of one_hot labels and of features that a frozen backbone, in eval(), normalises."""

    def __init__(self):
        super().__init__()
        with seeded(0):
            self.backbone = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32))
            self.backbone(torch.rand_like(X))
            self.head = nn.Sequential(nn.Linear(42, 8), nn.Tanh(), nn.Linear(8, 1))
        self.backbone.eval().requires_grad_(False)

    def forward(self, images, labels):
        return self.head(torch.cat((self.backbone(images), one_hot(labels, 10)), 1))


CRITICS = pytest.mark.parametrize("critic", [lambda: pair()[1], Pretrained])
SLOW_WAY = pytest.mark.filterwarnings("ignore:.*goes through torch.func")


@SLOW_WAY
@CRITICS
@pytest.mark.parametrize("loss", LOSSES)
def test_a_short_fit_releases_finite_samples(loss, critic):
    gan = gan_of(Generator(), critic(), loss=loss, betas=[0, 0.999]).fit(X, Y, steps=4)
    assert tuple(gan.settings_["betas"]) == (0, 0.999)
    samples = gan.sample([0, 1, 2, 2])
    assert samples.shape == (4, 1, 8, 8)
    assert samples.isfinite().all()
    assert 7.9 < gan.guarantee().epsilon <= 8
    assert gan.plan_.ledger()[0].count == len(gan.curves_) == 4


@SLOW_WAY
@CRITICS
@pytest.mark.parametrize("loss", LOSSES)
def test_no_record_moves_what_is_noised_by_more_than_twice_the_clip_norm(loss, critic, monkeypatch):
    """A replaced record, in image and label; and nothing else of the step depends on it."""
    sums = []

    def kept(found, *, noise_std, rng):
        sums.append(torch.cat([total.flatten() for total in found]).double())
        return [torch.zeros_like(total) for total in found]

    monkeypatch.setattr(release, "noised", kept)
    x, y = X[:20].clone(), Y[:20].clone()
    settings = gan_settings(gan_of(loss=loss, n_critic=1, max_grad_norm=0.3), records=99, steps=3)
    generators = []
    for changed in (False, True):
        if changed:
            x[4], y[4] = -40 * x[4], (y[4] + 3) % 10
        gan = new_gan(pair()[0], critic(), settings)
        held = [buffer.clone() for buffer in gan.discriminator.buffers()]
        rng = generator_on(CPU, reproducible_seed=0)
        for index in range(2):
            step(gan, x, y, settings=settings, index=index, rng=rng)
        assert all(map(torch.equal, held, gan.discriminator.buffers()))
        generators.append(torch.cat([p.flatten() for p in gan.averaged_net.parameters()]))
    moved = [(sums[i] - sums[i + 2]).norm() for i in range(2)]
    assert all(0 < distance <= 2 * 0.3 * (1 + 1e-5) for distance in moved)
    assert torch.equal(*generators)


@pytest.mark.slow("a loss that treats records without labels otherwise")
@pytest.mark.parametrize("loss", LOSSES)
def test_steps_without_labels_are_covered_by_what_they_charge(loss):
    """With labels: tests/audit/training/test_steps_are_covered.py."""
    gan = gan_of(loss=loss, classes=None, n_critic=1, max_grad_norm=0.3, batch_size=4)
    settings = gan_settings(gan, records=8, steps=2)
    told = {"settings": settings, "charged": settings.plan.ledger(2)}
    told |= {"released": lambda gan: gan.averaged_net}
    assert_covered(checked(step, lambda: new_gan(*pair(), settings), (X[:8], Y[:8]), **told))


@pytest.mark.parametrize("loss", LOSSES)
def test_an_empty_batch_is_a_step_of_noise(loss):
    settings = gan_settings(gan_of(loss=loss, n_critic=1), records=99, steps=3)
    gan = new_gan(*pair(), settings)
    before = next(gan.discriminator.parameters()).clone()
    rng = generator_on(CPU, reproducible_seed=0)
    record = step(gan, X[:0], Y[:0], settings=settings, index=0, rng=rng)
    assert (record.batch_size, record.discriminator_loss, record.clipped) == (0, 0, 0)
    assert not torch.equal(before, next(gan.discriminator.parameters()))


def test_labels_are_neither_needed_nor_stated_without_classes(fitted):
    assert "the number of classes, 10, is public" in fitted.statement()
    gan = gan_of(classes=None).fit(X, steps=2)
    assert "classes" not in gan.statement()
    assert gan.sample(7).shape == (7, 1, 8, 8)
    with pytest.raises(ValueError, match="n must be an integer"):
        gan.sample([0, 1])


def test_a_second_fit_starts_anew_from_the_networks_that_were_given():
    gan = gan_of(*(given := pair()), reproducible_seed=1)
    other = clone(gan).set_params(reproducible_seed=2)
    first, again, others = (
        next(one.fit(X, Y, steps=4).generator_.parameters()).clone() for one in (gan, gan, other)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, others)
    assert (gan.generator, gan.critic) == given
    assert not torch.equal(first, next(gan.generator.parameters()))


@pytest.mark.parametrize(("stored", "now"), [(5, 6), (5, None), (None, 6)])
def test_a_stored_run_goes_on_with_its_own_seed_alone(tmp_path, stored, now):
    """Without one, each process has an entropy of its own, and takes the stored state."""
    place = tmp_path / "run.pt"
    first = gan_of(reproducible_seed=stored).fit(X, Y, steps=4, checkpoint=place)
    with pytest.raises(ValueError, match=r"settings\.reproducible_seed \(stored .*, now"):
        gan_of(reproducible_seed=now).fit(X, Y, steps=4, checkpoint=place)
    again = gan_of(reproducible_seed=stored).fit(X, Y, steps=4, checkpoint=place)
    one, other = (next(gan.generator_.parameters()) for gan in (first, again))
    assert torch.equal(one, other)


def test_the_seed_itself_is_neither_stored_nor_published_but_that_there_is_one(tmp_path):
    place, file = tmp_path / "run.pt", tmp_path / "generator.safetensors"
    gan_of(reproducible_seed=31337).fit(X, Y, steps=2, checkpoint=place).save(file)
    assert "31337" not in read_saved(place).fingerprint["settings.reproducible_seed"]
    assert b"fixed seed" in file.read_bytes()
    assert b"31337" not in file.read_bytes()


def test_a_saved_file_holds_what_may_be_published_and_gives_the_same_samples(fitted, tmp_path):
    path = tmp_path / "generator.safetensors"
    fitted.save(path)
    other = gan_of(*pair(seed=1)).load(path)
    one, two = (gan.sample([0, 5, 9], reproducible_seed=2) for gan in (fitted, other))
    assert torch.equal(one, two)
    assert (other.statement(), other.guarantee()) == (fitted.statement(), fitted.guarantee())
    with safe_open(path, framework="pt") as file:
        names, words = set(file.keys()), file.metadata()
    assert (names, set(words)) == (set(fitted.generator_.state_dict()), {"statement", "dpkit"})
    facts = json.loads(words["dpkit"])
    assert facts["settings"]["n_critic"] == 2
    assert {"epsilon", "delta", "adjacency", "method", "ledger"} <= set(facts)
    assert not {"reproducible_seed", "device"} & set(facts["settings"])


@pytest.mark.parametrize("other", [{"classes": 9}, {"latent_size": 8}])
def test_another_architecture_is_not_loaded(fitted, tmp_path, other):
    fitted.save(tmp_path / "generator.safetensors")
    networks = Generator(**{"latent_size": 16, "classes": 10, **other}), Critic()
    with pytest.raises(ValueError, match="another architecture"):
        gan_of(*networks, **other).load(tmp_path / "generator.safetensors")


def test_paths_where_no_file_is_or_can_be_are_said(fitted, tmp_path):
    for place, words in ((tmp_path / "no" / "file", "does not exist"), (tmp_path, "is a folder")):
        with pytest.raises(ValueError, match=words):
            fitted.save(place)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        gan_of().load(tmp_path / "no.safetensors")
    (tmp_path / "no.safetensors").write_bytes(b"words")
    with pytest.raises(ValueError, match="no file that dpkit saved"):
        gan_of().load(tmp_path / "no.safetensors")


def test_no_step_is_nothing_to_state_or_to_save(tmp_path):
    private = private_of()
    assert "No step was made yet" in private.statement()
    with pytest.raises(ValueError, match="no step was made yet"):
        private.save(tmp_path / "net.safetensors")
    assert not list(tmp_path.iterdir())


def test_mapped_bytes_whole_numbers_and_networks_in_double_precision_are_taken(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("dpkit.private.data.SMALL", 0)
    np.save(tmp_path / "x.npy", ((X + 1) * 127.5).byte().numpy())
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    gan = gan_of(*(net.double() for net in pair()))
    made = gan.fit(mapped, Y, steps=2, checkpoint=tmp_path / "run.pt").sample([0])
    assert made.abs().max() <= 1
    assert made.dtype == torch.float64
    whole = gan_of().fit((9 * X).to(torch.int16), Y, steps=2)  # they become floats
    assert whole.sample([0]).dtype == torch.float32


def test_curves_have_each_step():
    curves = gan_of().fit(X, Y, steps=3).curves_
    assert list(curves["step"]) == [1, 2, 3]
    assert curves["generator_loss"].notna().sum() == 1
    assert curves["clipped"].between(0, 1).all()


def test_what_is_published_is_what_was_fitted(tmp_path):
    gan = gan_of(classes=np.int64(10)).fit(X, Y, steps=2).set_params(epsilon=1, classes=3)
    gan.save(tmp_path / "generator.safetensors")
    assert gan.sample([9]).isfinite().all()
    other = gan_of().load(tmp_path / "generator.safetensors")
    assert (other.settings_["epsilon"], other.statement()) == (8, gan.statement())


class Counts(Generator):
    """A generator that counts what it made, in evaluation mode too."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("made", torch.zeros(()))

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        self.made += 1
        return super().forward(*inputs)


class Forgets(Generator):
    """A generator with a buffer that no checkpoint holds."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("shift", torch.zeros(()), persistent=False)


def test_a_run_that_does_not_start_reserves_nothing_and_keeps_what_was_fitted(fitted, tmp_path):
    budget = Budget(tmp_path / "budget.json", epsilon=30, delta=1e-5)
    other = tmp_path / "other.pt"
    gan_of(batch_size=16).fit(X, Y, steps=2, checkpoint=other)
    (tmp_path / "file").touch()
    mine, below = tmp_path / "mine.pt", tmp_path / "file" / "run.pt"
    for changed, checkpoint, error in (
        ({"transform": torch.log}, None, "NaN or infinite"),
        ({"transform": lambda x: x / 2}, mine, "another process can compare"),
        *(({}, other, "another run"), ({}, below, "file")),
        ({"generator": Forgets()}, mine, "persistent=True"),
        ({"generator": Counts()}, None, "as it runs in evaluation mode"),
    ):
        gan = clone(fitted).set_params(**changed)
        vars(gan).update({name: x for name, x in vars(fitted).items() if name.endswith("_")})
        before = gan.sample([1], reproducible_seed=1)
        with pytest.raises((ValueError, OSError), match=error):
            gan.fit(X, Y, steps=2, checkpoint=checkpoint, budget=budget)
        assert not (tmp_path / "budget.json").exists()
        torch.testing.assert_close(gan.sample([1], reproducible_seed=1), before)
    for _ in range(2):
        gan_of(transform=torch.tanh).fit(X, Y, steps=2, checkpoint=mine, budget=budget)
    assert len(json.loads((tmp_path / "budget.json").read_text())["runs"]) == 1
    gan_of(transform=torch.tanh).fit(X, Y, steps=2, budget=budget)  # no checkpoint: another run
    with pytest.raises(OverBudget):
        gan_of(epsilon=40).fit(X, Y, steps=2, budget=budget)
    assert len(json.loads((tmp_path / "budget.json").read_text())["runs"]) == 2
