"""A kernel that dies at its start is started again; any other failure is told at once."""

import kernels
import pytest


@pytest.mark.parametrize(
    ("message", "fail", "calls"),
    [
        ("Kernel died before replying to kernel_info", 1, 2),
        ("Kernel died before replying to kernel_info", 9, kernels.STARTS),
        ("Kernel didn't respond in 60 seconds", 9, 1),
    ],
)
def test_second_chances(message: str, fail: int, calls: int, monkeypatch: pytest.MonkeyPatch):
    seen: list[str] = []

    def start(name: str) -> str:
        seen.append(name)
        if len(seen) <= fail:
            raise RuntimeError(message)
        return "a kernel"

    monkeypatch.setattr(kernels, "start_once", start)
    if fail < kernels.STARTS and calls > 1:
        assert kernels.start_new_kernel("python3") == "a kernel"
    else:
        with pytest.raises(RuntimeError, match="Kernel di"):
            kernels.start_new_kernel("python3")
    assert len(seen) == calls
