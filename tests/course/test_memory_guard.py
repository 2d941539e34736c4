"""The memory guard reads every place where a limit may stand, and refuses what would not fit."""

from pathlib import Path

import pytest

from dpkit.course.memory_guard import Memory, TooLittleMemory, memory, require

MB = 1_000_000


def machine(root: Path, total: int = 8000, available: int = 6000, cgroup: str = "") -> Path:
    """A system's folder with so many MB of memory, and a process in these cgroups."""
    (root / "proc" / "self").mkdir(parents=True)
    (root / "proc" / "meminfo").write_text(
        f"MemTotal:     {total * MB // 1024} kB\nMemFree:  17 kB\n"
        f"MemAvailable: {available * MB // 1024} kB\nActive(file): 12 kB\nHugePages_Total: 0\n"
    )
    (root / "proc" / "self" / "cgroup").write_text(cgroup)
    return root


def group(folder: Path, limit: int | str, usage: int) -> None:
    """One cgroup's files; 30 MB of its usage are cached files that nobody has mapped."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in {"memory.max": limit, "memory.current": usage}.items():
        (folder / name).write_text(f"{value}\n")
    (folder / "memory.stat").write_text(
        f"anon 1\ninactive_file {50 * MB}\nactive_file {20 * MB}\nfile_mapped {40 * MB}\n"
    )


@pytest.mark.parametrize(
    ("available", "process", "groups", "limit", "left", "source"),
    [
        (6000, "", {}, 8000, 6000, "this machine"),
        # the limit is on a group above
        (
            *(6000, "/pods/pod/me"),
            {"pods/pod/me": ("max", 100), "pods/pod": (2000, 700), "pods": (5000, 900)},
            *(2000, 1330, "cgroup v2"),
        ),
        # inside a container
        *(
            (6000, seen_as, {".": (450, 400)}, 450, 80, "cgroup v2")
            for seen_as in ("/", "/../..", "/docker/not-seen-from-within")
        ),
        (300, "/", {".": (2000, 100)}, 8000, 300, "this machine"),  # it has less than the limit
        (6000, "/", {".": (400, 500)}, 400, 0, "cgroup v2"),  # overrun
    ],
)
def test_the_limit_under_which_least_is_left(
    tmp_path: Path, available, process, groups, limit, left, source
):
    machine(tmp_path, 8000, available, cgroup=f"0::{process}\n" if process else "")
    for name, (most, used) in groups.items():
        most = most if most == "max" else most * MB
        group(tmp_path / "sys/fs/cgroup" / name, most, used * MB)
    found = memory(tmp_path)
    assert found is not None
    assert (found.limit, found.left) == pytest.approx((limit, left), abs=0.01)
    assert found.source == source


def test_where_nothing_is_known_nothing_is_refused(tmp_path: Path, monkeypatch):
    assert memory(tmp_path) is None
    monkeypatch.setattr("dpkit.course.memory_guard.memory", lambda: None)
    require(10**9)


def test_what_fits_passes_and_what_does_not_is_told_with_a_remedy():
    now = Memory(limit=2000.0, left=500.0, source="cgroup v2")
    require(500, now=now)
    with pytest.raises(TooLittleMemory) as caught:
        require(501, what="Training for 200 steps", now=now)
    assert str(caught.value).startswith(
        "Training for 200 steps needs about 501 MB, and 500 MB are left of the 2000 MB that"
        " cgroup v2 allows. Shut down other kernels"
    )
    assert isinstance(caught.value, MemoryError)


@pytest.mark.parametrize("megabytes", [float("nan"), float("inf"), 0, -1, "many", None, True])
def test_a_need_that_is_no_number_is_refused(megabytes: object):
    with pytest.raises(ValueError, match="megabytes must be"):
        require(megabytes, now=Memory(2000.0, 2000.0, "cgroup v2"))  # type: ignore[arg-type]


def test_this_machine_has_less_than_a_petabyte():
    found = memory()
    if found is None:
        pytest.skip("this system does not tell")
    assert 0 < found.left < found.limit < 1e9
    with pytest.raises(TooLittleMemory):
        require(1e9)
