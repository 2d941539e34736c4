"""make gpu: jobs side by side end in time, speeds are of some steps, and checks can fail."""

import time

import gpu
import on_device
import pytest
import torch

from dpkit.common.records import read_json

pytestmark = pytest.mark.torch


def test_jobs_run_in_their_order_fail_by_name_and_end_with_the_time(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu, "OUT", tmp_path)
    made = tmp_path / "made"
    jobs = {
        "second": gpu.Job(["-c", f"open({str(made)!r}).close()"], "first"),
        "first": gpu.Job(["-c", f"import time; time.sleep(0.5); open({str(made)!r}, 'w').close()"]),
        "wrong": gpu.Job(["-c", "raise SystemExit('a reason')"]),
        "endless": gpu.Job(["-c", "import time; time.sleep(60)"]),
    }
    until = time.monotonic() + 2
    assert gpu.side_by_side(jobs, until=until, at_once=3) == ["wrong"]
    assert time.monotonic() < until + 3
    assert "a reason" in (tmp_path / "logs" / "wrong.log").read_text()


def test_a_speed_is_that_of_some_steps_behind_a_warm_start():
    assert len(list(gpu.timed(range(99), total=99, desc="gan seed 0, warm"))) == 31
    slow = (time.sleep(0.01) for _ in range(99))
    with pytest.raises(gpu.Cut) as found:
        list(gpu.timed(slow, total=99, desc="gan seed 0"))
    steps, each = found.value.args
    assert (steps, 0.01 <= each < 0.5) == (99, True)


def test_a_device_that_differs_fails_and_the_other_checks_are_stored(tmp_path, monkeypatch):
    def papers():
        raise RuntimeError("no such kernel")

    monkeypatch.setattr(on_device.cases, "difference", lambda *given: 2e-4)
    monkeypatch.setattr(on_device, "papers", papers)
    monkeypatch.setattr(on_device, "resumed", lambda: [])  # which takes seconds
    assert on_device.main(tmp_path / "found.json") == 2
    rows = read_json(tmp_path / "found.json")
    failed = {name for name, row in rows.items() if not row.get("ok", True)}
    assert failed == {"clipped sums, mlp", "papers"}  # of the noise's, one run in 400,000 fails
    assert "no such kernel" in rows["papers"]["error"]


def test_draws_are_the_same_on_both_sides_and_go_on():
    rng, drawn = torch.Generator().manual_seed(1), []
    for _ in range(2):
        with on_device.SameDraws():
            drawn.append([torch.rand(3, generator=rng), torch.empty(3).uniform_(generator=rng)])
            drawn[-1].append(torch.rand(3, generator=rng))
    assert all(map(torch.equal, *drawn))
    assert not torch.equal(drawn[0][0], drawn[0][2])
