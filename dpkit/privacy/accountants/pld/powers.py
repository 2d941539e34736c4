"""Products of powers of discrete Fourier transforms, with a bound on every rounding error.

The proofs are in proof.md, D.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from dpkit.privacy.accountants.pld.loss_grid import Real, Whole
from dpkit.privacy.mechanisms.base import UNIT, Floats

NEGLIGIBLE = -50.0  # log of a Fourier coefficient that is left out
SHORT = 3  # times a convolution by chirps takes as long as a real transform of its length
ROOM = 2**15  # complex numbers in an array
Complexes = NDArray[np.complex128]


def _norm(values: Floats) -> Floats:
    """The L2 norm of the rows (..., 1), by a sum that asks for no threads.

    Threads wait for each other when others work.
    """
    return np.sqrt(np.square(values).sum(axis=-1, keepdims=True))


def _fft_error(length: int) -> float:
    """What a transform of a 5-smooth length adds at most, relative to the 2-norm (proof.md, D)."""
    error = 0.0
    for prime, one in ((2, 4.72), (3, 12.5), (5, 19.7)):
        while length % prime == 0:
            length, error = length // prime, error + one * UNIT
    if length > 1:
        raise ValueError("only transforms of 5-smooth lengths have a bound on their rounding")
    return error


def _bits(length: int) -> int:
    """The least exponent of a power of 2 that is at least `length`."""
    return (length - 1).bit_length()


class Power:
    """A product of powers of discrete Fourier transforms, with a bound on its error.

    The transform of floats of norm |x| is off by at most `_fft_error` |x| in the 2-norm
    (proof.md, D, after Higham 2002, section 24.1).
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.rounding = _fft_error(size)
        self.alive = np.arange(size // 2 + 1)  # coefficients that are not negligible
        self.log_size = np.zeros(self.alive.size)
        self.log_worst = np.zeros(self.alive.size)  # the same with every error added
        self.phase = np.zeros(self.alive.size)
        self.drift = np.zeros(self.alive.size)  # what rounding may have moved both by
        self.chirps = np.zeros(0, dtype=complex)
        self.dropped = 0.0  # bound on each coefficient that was left out
        self.count = 0.0
        self.start = 0

    def multiply(self, first: Whole, weights: Floats, count: Real) -> None:
        """By the transforms of weights at the indices first, first + 1, ... to the power count.

        weights: (n,), or (m, n) with first (m, 1) and count (m,).
        """
        weights, counts = np.atleast_2d(weights), np.ravel(count).tolist()
        middles = np.argmax(np.cumsum(weights, axis=1) >= 0.5, axis=1)  # phases near it stay small
        start, rows = 0, weights.shape[0]
        while start < rows:
            lowest = int(self.alive.max(initial=0)) + 1
            near = weights.shape[1] + lowest
            few = SHORT * near < self.size
            end = min(start + max(ROOM // near, 1), rows) if few else start + 1
            some = slice(start, end)
            found, error = (
                self._lowest(weights[some], middles[some], lowest)
                if few
                else self._whole(weights[start], int(middles[start]))
            )
            if self.alive.size < found.shape[1]:
                found = found[:, self.alive]
            self._raise(found, error, counts[some])
            start = end
        for n, at in zip(counts, (np.ravel(first) + middles).tolist(), strict=True):
            self.count += n
            self.start += int(n) * at

    def _whole(self, weights: Floats, middle: int) -> tuple[Complexes, Floats]:
        """All coefficients (1, size // 2 + 1) about the middle, and what they are off by (1, 1)."""
        shift = -middle % self.size
        rows = -(-(shift + weights.size) // self.size)
        padded = np.zeros(rows * self.size)
        padded[shift : shift + weights.size] = weights
        folded = padded.reshape(rows, self.size).sum(axis=0, keepdims=True)
        norm = np.sqrt(self.size) * _norm(folded)
        error = self.rounding * np.maximum(norm, 1.0) + UNIT * weights.size / self.size
        return np.asarray(fft.rfft(folded)), error

    def _lowest(
        self, weights: Floats, middles: NDArray[np.int64], count: int
    ) -> tuple[Complexes, Floats]:
        """The first `count` coefficients (m, count) by chirps, and what they are off by (m, 1).

        With 2jk = j^2 + k^2 - (j - k)^2 a sum over k becomes a convolution of the length of the
        weights and the coefficients (Bluestein 1970).
        """
        before, after = int(middles.max()), weights.shape[1] - int(middles.min())
        least = before + count + after
        length = min(2 ** _bits(least), 3 * 2 ** _bits(-(-least // 3)))  # that round least
        places = (np.arange(weights.shape[1]) - middles[:, None]) % length
        padded = np.zeros((weights.shape[0], length))
        padded[np.arange(weights.shape[0])[:, None], places] = weights
        filtered = np.asarray(fft.fft(np.conj(self._chirp(length, before + count))))
        product = np.asarray(fft.fft(padded * self._chirp(length, after))) * filtered
        found = np.asarray(fft.ifft(product))[:, :count] * self._chirp(length, length)[:count]
        rounding = _fft_error(length)
        error = 2 * (rounding + 20 * UNIT) * np.sqrt(length) + rounding * np.abs(filtered).max()
        return found, error * _norm(weights) + 20 * UNIT

    def _chirp(self, length: int, positive: int) -> Complexes:
        """exp(-i pi k^2 / size) for k = 0, ..., positive - 1 and then negative k up to -1."""
        if self.chirps.size < length:
            k = np.arange(length)
            turn = k * k % (2 * self.size)
            angle = np.pi * (turn - 2 * self.size * (turn > self.size)) / self.size
            self.chirps = np.cos(angle) - 1j * np.sin(angle)
        return np.concatenate([self.chirps[:positive], self.chirps[length - positive : 0 : -1]])

    def _raise(self, found: Complexes, error: Floats, counts: Sequence[float]) -> None:
        """Multiply by the rows of coefficients that are alive, to the power of their counts."""
        size = np.abs(found)
        worst = self.log_worst.copy()
        for count, logs in zip(counts, np.log(size + error), strict=True):
            worst += count * logs
        kept = ~(worst <= NEGLIGIBLE)  # what is not a number stays, and spoils the result
        if not kept.all():
            self.dropped = max(self.dropped, float(np.exp(worst[~kept].max())))
            found, size = found[:, kept], size[:, kept]
        self.alive, self.log_worst = self.alive[kept], worst[kept]
        self.log_size, self.phase, self.drift = (
            one[kept] for one in (self.log_size, self.phase, self.drift)
        )
        with np.errstate(divide="ignore"):
            parts = zip(counts, np.log(size), np.angle(found), strict=True)
        for count, logs, angles in parts:
            self.log_size += count * logs
            self.phase += count * angles
            self.drift += UNIT * (np.abs(self.phase) + np.abs(self.log_size))

    def result(self, first: int) -> tuple[Floats, float]:
        """The weights at first, first + 1, ..., and a bound on the sum of their errors."""
        product = np.zeros(self.size // 2 + 1, dtype=complex)
        product[self.alive] = np.exp(self.log_size + 1j * self.phase)
        found = np.asarray(fft.irfft(product, self.size))
        weights = np.roll(found, -((first - self.start) % self.size))
        wrong = -np.expm1(self.log_size - self.log_worst)
        wrong += 16 * UNIT * self.count + 2 * self.drift
        wrong *= np.exp(self.log_worst)
        error = np.sqrt(2) * _norm(wrong) + np.sqrt(self.size) * self.dropped
        error += self.rounding * np.sqrt(2) * _norm(np.abs(product))
        return weights, float(error[0])
