"""What tests of checkpoints share: a place for one, and one thread."""

import pytest


@pytest.fixture
def place(tmp_path):
    checkpoint = pytest.importorskip("dpkit.training.checkpoint")
    return checkpoint.Checkpoints(tmp_path / "run" / "gan.checkpoint", every=3, reserve=4)


@pytest.fixture(autouse=True)
def one_thread():
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
