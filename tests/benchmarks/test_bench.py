"""The harness: rounds are interleaved, ratios are dpkit's share, rows have the stored form."""

import audit
import bench
import pytest


def test_rounds_are_interleaved_after_a_warm_up(monkeypatch):
    calls: list[str] = []
    monkeypatch.setattr(bench.gc, "collect", lambda: calls.append("collected"))
    contenders = {"plain": lambda: calls.append("plain"), "dpkit": lambda: calls.append("dpkit")}
    times = bench.medians(contenders, repeats=2)
    assert calls == ["collected", "plain", "collected", "dpkit"] * 3
    assert set(times) == {"plain", "dpkit"}
    with pytest.raises(ValueError, match="repeats must be at least 1, got 0"):
        bench.medians({}, repeats=0)


def test_a_row_as_stored_with_a_peer_and_without():
    row = bench.Row(name="x", dpkit_ms=3.0, plain_ms=2.0, peer="other 1.0", peer_ms=6.0).as_json()
    assert row == {
        **{"name": "x", "plain_ms": 2.0, "dpkit_ms": 3.0, "peer": "other 1.0", "peer_ms": 6.0},
        **{"ratio_to_plain": 1.5, "ratio_to_peer": 0.5, "peak_memory_ratio": None},
    }
    assert "1.5" in bench.line(row)
    alone = bench.Row(name="x", dpkit_ms=3.0).as_json()
    assert alone["ratio_to_peer"] is alone["ratio_to_plain"] is None


def test_a_peer_that_is_not_installed_is_named(monkeypatch, capsys):
    monkeypatch.setattr(audit, "PEER", "no-such-package")
    assert list(audit.rows()) == []
    assert "no-such-package is not installed" in capsys.readouterr().out
