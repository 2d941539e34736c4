"""The measurements behind the claims, on a few steps; and that they would see noise that works."""

import pytest
import torch

from dpkit.common import records
from dpkit.papers.rdp_gan import algorithm, claims, evidence

pytestmark = pytest.mark.torch

BY_ID = {claim.id: claim for claim in claims.CLAIMS}


def verdict(name, measured):
    claim = BY_ID[f"rdp_gan/{name}"]
    assert "{" not in claim.explained(measured.values)
    assert claim.believed is not None
    return claim.believed(claim.compute(measured.values))


def noised_everywhere(gan, *batch, settings, index, rng):
    """A step whose released gradient has noise of its own size on every coordinate."""
    record = algorithm.loss_value_step(gan, *batch, settings=settings, index=index, rng=rng)
    for parameter in gan.discriminator.parameters():
        scale = (settings.noise.schedule(0) > 0) * parameter.grad.norm()
        noise = torch.randn(parameter.shape, generator=rng) / parameter.numel() ** 0.5
        parameter.grad += scale * noise
        parameter.data -= 1e-3 * noise * scale
    return record


def test_noise_on_the_value_changes_nothing_and_what_reached_weights_would_be_seen(monkeypatch):
    measured = evidence.loss_value(iterations=1)
    assert measured.values["difference"] == 0.0
    assert measured.values["moved"] > 1e-4
    assert not verdict("loss-noise-changes-nothing", measured)
    monkeypatch.setattr(algorithm, "loss_value_step", algorithm.output_error_step)
    assert verdict("loss-noise-changes-nothing", evidence.loss_value(iterations=1))


def test_the_direction_is_released_and_noise_that_turned_it_would_be_seen(monkeypatch):
    measured = evidence.direction(steps=3)
    assert measured.values["smallest_cosine"] == pytest.approx(1, abs=1e-9)
    assert not verdict("multiplicative-direction", measured)
    monkeypatch.setattr(algorithm, "multiplicative_step", noised_everywhere)
    assert verdict("multiplicative-direction", evidence.direction(steps=1))


def test_the_update_stays_in_the_span_and_noise_outside_would_be_seen(monkeypatch):
    measured = evidence.span(steps=1)
    assert max(measured.values["outside"], measured.values["noise_outside"]) < 1e-5
    assert measured.values["noise_share"] > 0.1
    assert measured.values["inputs"] < measured.values["dimensions"]
    assert not verdict("eq-9-span", measured)
    monkeypatch.setattr(algorithm, "output_error_step", noised_everywhere)
    measured = evidence.span(steps=1)
    assert measured.values["noise_outside"] > 0.5
    assert verdict("eq-9-span", measured)


def test_what_the_stored_evidence_is_said_to_be_within():
    direction, span = (
        records.read_json(BY_ID[f"rdp_gan/{name}"].evidence.path)["values"]
        for name in ("multiplicative-direction", "eq-9-span")
    )
    assert direction["largest_gap"] < 1e-9
    assert max(span["outside"], span["noise_outside"]) < 1e-5


def test_torch_cuts_cross_entropies_off_and_a_logit_does_not():
    sure, zero = torch.tensor([[200.0], [0.0]], dtype=torch.float64)
    assert torch.nn.functional.binary_cross_entropy(torch.sigmoid(sure), zero).item() == 100.0
    assert torch.nn.functional.softplus(sure).item() == pytest.approx(200.0)
