// Renyi accounting of Poisson-sampled Gaussians, add-remove adjacency (Mironov, Talwar, Zhang 2019,
// Thm 5), with the improved conversion (Balle et al. 2020, Thm 21), as dpkit.privacy.rdp computes it.
"use strict";

var Lab = Lab || {};

Lab.accountant = (function () {
  const ABOVE = 4e-7; // relative: added to each epsilon, so that rounding never makes it too small
  const WHOLE_ABOVE = 1000; // orders above it are whole, as in the kit, whose epsilon this is

  // log of E[(1 - q + q e^((2x - 1) / (2 s^2)))^order] - for x from N(0, s^2), by the trapezoidal
  // rule, which converges geometrically here; what has mean 0 is taken off before it is added up.
  function logMoment(order, noise, rate) {
    const variance = noise * noise;
    const step = Math.min(noise / 4, variance / 2);
    const start = -12 * noise;
    const count = Math.ceil((order + 24 * noise) / step);
    const logRest = Math.log1p(-rate);
    const logRate = Math.log(rate);
    const points = [];
    let most = 0;
    for (let i = 0; i <= count; i++) {
      const x = start + i * step;
      const exponent = (2 * x - 1) / (2 * variance);
      const base = -x * x / (2 * variance);
      const up = logRate + exponent;
      const high = Math.max(logRest, up);
      const ratio = rate === 1 ? exponent
        : high > 30 ? high : Math.log1p(rate * Math.expm1(exponent));
      const total = base + order * ratio;
      points.push([base, exponent, ratio, total]);
      most = Math.max(most, total);
    }
    let sum = 0;
    for (const [base, exponent, ratio, total] of points) {
      const power = order * ratio;
      if (Math.abs(power) < 1) {
        sum += Math.exp(base - most) * (Math.expm1(power) - order * rate * Math.expm1(exponent));
      } else {
        const linear = Math.exp(base - most) * (1 - order * rate)
          + order * rate * Math.exp(base + exponent - most);
        sum += Math.exp(total - most) - linear;
      }
    }
    sum *= step / (noise * Math.sqrt(2 * Math.PI));
    return most < 1 ? Math.log1p(sum * Math.exp(most)) : most + Math.log(sum + Math.exp(-most));
  }

  // Renyi divergence in nats of one release; infinite without noise, 0 without records.
  function divergence(order, noise, rate) {
    if (rate === 0) return 0;
    if (!(noise > 0)) return Infinity;
    if (rate === 1) return order / (2 * noise * noise);
    return Math.max(0, logMoment(order, noise, rate) / (order - 1));
  }

  // The smallest epsilon over orders for a ledger of {noise, rate, count}.
  function epsilon(ledger, delta) {
    const releases = ledger.filter((one) => one.count > 0 && one.rate > 0);
    if (releases.length === 0) return 0;
    if (releases.some((one) => !(one.noise > 0))) return Infinity;
    const seen = new Map();
    function price(order) {
      if (!seen.has(order)) {
        let rdp = 0;
        for (const one of releases) rdp += one.count * divergence(order, one.noise, one.rate);
        const found = rdp + Math.log1p(-1 / order) - (Math.log(delta) + Math.log(order)) / (order - 1);
        seen.set(order, Math.max(0, found));
      }
      return seen.get(order);
    }
    function at(place) {
      const order = 1 + Math.exp(place);
      return price(order > WHOLE_ABOVE ? Math.round(order) : order);
    }
    const net = [];
    for (let k = -13; k <= 14; k++) net.push(k * Math.LN2);
    let best = 0;
    for (let i = 1; i < net.length; i++) {
      if (at(net[i]) < at(net[best])) best = i;
      else if (i > best + 2) break; // one valley alone: it only rises from here
    }
    let low = net[Math.max(0, best - 1)];
    let high = net[Math.min(net.length - 1, best + 1)];
    const share = (Math.sqrt(5) - 1) / 2;
    let a = high - share * (high - low);
    let b = low + share * (high - low);
    while (high - low > 1e-5) {
      if (at(a) <= at(b)) {
        high = b; b = a; a = high - share * (high - low);
      } else {
        low = a; a = b; b = low + share * (high - low);
      }
    }
    const near = Math.round(1 + Math.exp((low + high) / 2));
    if (near > WHOLE_ABOVE) for (let order = near - 2; order <= near + 2; order++) price(order);
    return Math.min(...seen.values()) * (1 + ABOVE);
  }

  return { divergence, epsilon };
})();
