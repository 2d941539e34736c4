"""Names of devices, the precision of products on them, and numbers read from them."""

from typing import Any

import pytest
import torch

from dpkit.training.device import device_label, device_named, floats, precision
from dpkit.training.types import Record

pytestmark = pytest.mark.torch

CPU = torch.device("cpu")
backends: Any = torch.backends
OPERATIONS = (backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn, backends.mkldnn.matmul)


@pytest.fixture
def accelerator(monkeypatch):
    """Let torch see this many accelerators of a kind."""

    def pretend(kind, count):
        found = None if kind is None else torch.device(kind)
        monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: found)
        monkeypatch.setattr(torch.accelerator, "device_count", lambda: count)

    return pretend


@pytest.mark.parametrize(
    ("kind", "count", "auto"),
    [
        (None, 0, "cpu"),
        ("cuda", 0, "cpu"),
        ("cuda", 2, "cuda"),
        ("xpu", 1, "xpu"),
        ("mps", 1, "cpu"),
    ],
)
def test_auto_is_an_accelerator_that_has_float64(accelerator, kind, count, auto):
    accelerator(kind, count)
    assert device_named("auto") == torch.device(auto)
    assert device_named("cpu") == device_named("cpu:0") == CPU
    for name in ("cuda", "cuda:0", "cuda:1") if (kind, count) == ("cuda", 2) else ():
        assert device_named(name) == torch.device(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tpu", "device must be auto, cpu, cuda, .* got 'tpu'"),
        ("meta", "device must be auto, cpu, cuda, .* got 'meta'"),
        ("mps", "torch sees no such device here"),
        ("cuda:2", "torch sees no such device here, only cpu, cuda:0, cuda:1; use"),
        ("xpu", "torch sees no such device here"),
    ],
)
def test_other_devices_are_refused(accelerator, name, message):
    accelerator("cuda", 2)
    with pytest.raises(ValueError, match=message):
        device_named(name)


def test_no_accelerator_at_all(accelerator):
    accelerator(None, 0)
    with pytest.raises(ValueError, match="only cpu; use one of these, or auto"):
        device_named("cuda")
    assert device_label(CPU) == "cpu"


def legacy(precision):
    return lambda: torch.set_float32_matmul_precision(precision)


def new(*operations, precision):
    def choose():
        for operation in operations:
            operation.fp32_precision = precision

    return choose


@pytest.fixture(params=["legacy", "matmul", "all", "both"])
def chosen_before(request):
    """A precision that a user chose, in one of torch's ways; put back afterwards."""
    before = [operation.fp32_precision for operation in OPERATIONS]
    ways = {
        "legacy": legacy("medium"),
        "matmul": new(backends.cuda.matmul, precision="tf32"),
        "all": new(backends, precision="tf32"),
        "both": new(backends.cuda.matmul, backends.cudnn.conv, precision="ieee"),
    }
    ways[request.param]()
    yield
    backends.fp32_precision = "none"
    legacy("highest")()
    backends.cudnn.allow_tf32 = True
    for operation, own in zip(OPERATIONS, before, strict=True):
        operation.fp32_precision = own


@pytest.mark.usefixtures("chosen_before")
@pytest.mark.parametrize("tf32", [False, True])
def test_float32_unless_tf32_is_chosen_and_as_before_afterwards(tf32):
    before = [operation.fp32_precision for operation in OPERATIONS]
    with precision(tf32=tf32):
        wanted = ["tf32" if tf32 else "ieee"] * 4
        assert [operation.fp32_precision for operation in OPERATIONS] == wanted
        if before != wanted:  # else it stays as the user set it
            assert torch.get_float32_matmul_precision() == ("high" if tf32 else "highest")
            assert backends.cudnn.allow_tf32 is tf32
    assert [operation.fp32_precision for operation in OPERATIONS] == before


def test_the_way_that_torch_answered_for_answers_as_before():
    torch.set_float32_matmul_precision("medium")
    try:
        convolutions = backends.cudnn.allow_tf32
        with precision(tf32=False):
            pass
        assert torch.get_float32_matmul_precision() == "medium"
        assert backends.cudnn.allow_tf32 == convolutions
    finally:
        torch.set_float32_matmul_precision("highest")


def test_numbers_are_read_together_and_none_stays_none():
    weight = torch.tensor(3.0, requires_grad=True)
    wide = torch.tensor([0.1], dtype=torch.float64)
    assert floats(1, None, weight * 2, wide, 0.5) == (1, None, 6.0, 0.1, 0.5)
    assert floats() == ()


def test_a_record_is_its_numbers_whether_they_came_as_tensors_or_not():
    given = Record(3, 8, torch.tensor(0.5, requires_grad=True), None, torch.tensor(0.25))
    record = Record(3, 8, 0.5, None, 0.25)
    assert given == record
    assert hash(given) == hash(record)
    assert repr(given) == (
        "Record(step=3, batch_size=8, discriminator_loss=0.5, generator_loss=None, clipped=0.25)"
    )
    assert type(given.discriminator_loss) is float
    assert (given.generator_loss, given.clipped) == (None, 0.25)
    assert tuple(given) == tuple(given._asdict().values()) == (3, 8, 0.5, None, 0.25)
    assert given != Record(3, 8, 0.5, 0.5, 0.25)
