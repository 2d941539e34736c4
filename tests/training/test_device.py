"""Names of devices, the precision of products on them, and numbers read from them."""

from typing import Any

import pytest
import torch

from dpkit.training.device import device_label, device_named, floats, precision
from dpkit.training.types import Record

CPU = torch.device("cpu")
backends: Any = torch.backends
OPERATIONS = (backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn, backends.mkldnn.matmul)
NEW = {  # ways but for the legacy one
    "matmul": ("tf32", [backends.cuda.matmul]),
    "all": ("tf32", [backends]),
    "both": ("ieee", [backends.cuda.matmul, backends.cudnn.conv]),
}


@pytest.fixture
def accelerator(monkeypatch):
    """Let torch see this many accelerators of a kind."""

    def pretend(kind, count):
        found = None if kind is None else torch.device(kind)
        monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: found)
        monkeypatch.setattr(torch.accelerator, "device_count", lambda: count)

    return pretend


def test_auto_is_an_accelerator_that_has_float64(accelerator):
    found = {(None, 0): "cpu", ("cuda", 0): "cpu", ("cuda", 2): "cuda"}
    for seen, auto in (found | {("xpu", 1): "xpu", ("mps", 1): "cpu"}).items():
        accelerator(*seen)
        assert device_named("auto") == torch.device(auto), seen
        assert device_named("cpu") == device_named("cpu:0") == CPU
    accelerator("cuda", 2)
    for name in ("cuda", "cuda:0", "cuda:1"):
        assert device_named(name) == torch.device(name)


def test_other_devices_are_refused(accelerator):
    accelerator("cuda", 2)
    for name in ("tpu", "meta"):
        with pytest.raises(ValueError, match=f"device must be auto, cpu, cuda, .* got '{name}'"):
            device_named(name)
    for name in ("mps", "xpu", "cuda:2"):
        with pytest.raises(ValueError, match="no such device here, only cpu, cuda:0, cuda:1; use"):
            device_named(name)
    accelerator(None, 0)
    with pytest.raises(ValueError, match="only cpu; use one of these, or auto"):
        device_named("cuda")
    assert device_label(CPU) == "cpu"


@pytest.fixture(params=["legacy", *NEW])
def chosen_before(request):
    """A precision that a user chose, in one of torch's ways; put back afterwards."""
    before = [operation.fp32_precision for operation in OPERATIONS]
    chosen, operations = NEW.get(request.param, ("", []))
    for operation in operations:
        operation.fp32_precision = chosen
    if not operations:
        torch.set_float32_matmul_precision("medium")
    yield request.param
    backends.fp32_precision = "none"
    torch.set_float32_matmul_precision("highest")
    backends.cudnn.allow_tf32 = True
    for operation, own in zip(OPERATIONS, before, strict=True):
        operation.fp32_precision = own


@pytest.mark.parametrize("tf32", [False, True])
def test_float32_unless_tf32_is_chosen_and_as_before_afterwards(tf32, chosen_before):
    before = [operation.fp32_precision for operation in OPERATIONS]
    legacy = chosen_before == "legacy"  # the way that torch answers for, then and afterwards
    convolutions = backends.cudnn.allow_tf32 if legacy else None
    with precision(tf32=tf32):
        wanted = ["tf32" if tf32 else "ieee"] * 4
        assert [operation.fp32_precision for operation in OPERATIONS] == wanted
        if before != wanted:  # else it stays as the user set it
            assert torch.get_float32_matmul_precision() == ("high" if tf32 else "highest")
            assert backends.cudnn.allow_tf32 is tf32
    assert [operation.fp32_precision for operation in OPERATIONS] == before
    if legacy:
        assert torch.get_float32_matmul_precision() == "medium"
        assert backends.cudnn.allow_tf32 == convolutions


def test_numbers_are_read_together_and_a_record_is_its_numbers():
    """Whether they came as tensors or not; none stays none."""
    weight = torch.tensor(3.0, requires_grad=True)
    wide = torch.tensor([0.1], dtype=torch.float64)
    assert floats(1, None, weight * 2, wide, 0.5) == (1, None, 6.0, 0.1, 0.5)
    assert floats() == ()
    given = Record(3, 8, torch.tensor(0.5, requires_grad=True), None, torch.tensor(0.25))
    record = Record(3, 8, 0.5, None, 0.25)
    assert (given, hash(given)) == (record, hash(record))
    assert repr(given) == repr(record)
    assert repr(given).endswith("discriminator_loss=0.5, generator_loss=None, clipped=0.25)")
    assert type(given.discriminator_loss) is float
    assert tuple(given) == tuple(given._asdict().values()) == (3, 8, 0.5, None, 0.25)
    assert given != Record(3, 8, 0.5, 0.5, 0.25)
