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


def test_the_same_weights_with_and_without_noise():
    measured = evidence.loss_value(iterations=1)
    assert measured.values["difference"] == 0.0
    assert measured.values["moved"] > 1e-4
    assert not verdict("loss-noise-changes-nothing", measured)


def test_noise_that_reached_the_weights_would_be_seen(monkeypatch):
    monkeypatch.setattr(algorithm, "loss_value_step", algorithm.output_error_step)
    assert verdict("loss-noise-changes-nothing", evidence.loss_value(iterations=1))


def test_the_direction_is_released():
    measured = evidence.direction(steps=3)
    assert measured.values["smallest_cosine"] == pytest.approx(1, abs=1e-9)
    assert not verdict("multiplicative-direction", measured)


def test_noise_that_turned_the_gradient_would_be_seen(monkeypatch):
    monkeypatch.setattr(algorithm, "multiplicative_step", noised_everywhere)
    assert verdict("multiplicative-direction", evidence.direction(steps=1))


def test_the_update_stays_in_the_span():
    measured = evidence.span(steps=1)
    assert measured.values["outside"] < 1e-5
    assert measured.values["noise_outside"] < 1e-5
    assert measured.values["noise_share"] > 0.1
    assert measured.values["inputs"] < measured.values["dimensions"]
    assert not verdict("eq-9-span", measured)


def test_noise_outside_the_span_would_be_seen(monkeypatch):
    monkeypatch.setattr(algorithm, "output_error_step", noised_everywhere)
    measured = evidence.span(steps=1)
    assert measured.values["noise_outside"] > 0.5
    assert verdict("eq-9-span", measured)


def stored(name):
    measurement = BY_ID[f"rdp_gan/{name}"].evidence
    assert measurement is not None
    return records.read_json(measurement.path)["values"]


def test_what_the_stored_evidence_is_said_to_be_within():
    assert stored("multiplicative-direction")["largest_gap"] < 1e-9
    span = stored("eq-9-span")
    assert max(span["outside"], span["noise_outside"]) < 1e-5


def test_torch_cuts_cross_entropies_off_and_a_logit_does_not():
    sure = torch.tensor([200.0], dtype=torch.float64)
    zero = torch.zeros(1, dtype=torch.float64)
    assert torch.nn.functional.binary_cross_entropy(torch.sigmoid(sure), zero).item() == 100.0
    assert torch.nn.functional.softplus(sure).item() == pytest.approx(200.0)
