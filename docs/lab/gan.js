// A GAN of points in the plane, with networks of two hidden layers whose gradients are written out.
"use strict";

var Lab = Lab || {};

// Layers of the given sizes, tanh between them; all parameters lie in one array.
Lab.Network = class {
  constructor(sizes, random) {
    this.sizes = sizes;
    this.offsets = [];
    let count = 0;
    for (let l = 0; l + 1 < sizes.length; l++) {
      this.offsets.push(count);
      count += sizes[l + 1] * (sizes[l] + 1);
    }
    this.weights = new Float64Array(count);
    for (let l = 0; l + 1 < sizes.length; l++) {
      const scale = Math.sqrt(1 / sizes[l]);
      const end = this.offsets[l] + sizes[l + 1] * sizes[l];
      for (let i = this.offsets[l]; i < end; i++) this.weights[i] = scale * random.normal();
    }
  }

  // The activations of every layer for one input, the last one linear.
  forward(input) {
    const all = [input];
    for (let l = 0; l + 1 < this.sizes.length; l++) {
      const [n, m] = [this.sizes[l], this.sizes[l + 1]];
      const bias = this.offsets[l] + n * m;
      const out = new Float64Array(m);
      for (let j = 0; j < m; j++) {
        let sum = this.weights[bias + j];
        const row = this.offsets[l] + j * n;
        for (let i = 0; i < n; i++) sum += this.weights[row + i] * all[l][i];
        out[j] = l + 2 < this.sizes.length ? Math.tanh(sum) : sum;
      }
      all.push(out);
    }
    return all;
  }

  // Adds the gradient for one input to `into` (if given); returns the gradient at the input.
  backward(all, outer, into) {
    let delta = outer;
    for (let l = this.sizes.length - 2; l >= 0; l--) {
      const [n, m] = [this.sizes[l], this.sizes[l + 1]];
      const bias = this.offsets[l] + n * m;
      const below = new Float64Array(n);
      for (let j = 0; j < m; j++) {
        const row = this.offsets[l] + j * n;
        for (let i = 0; i < n; i++) {
          if (into) into[row + i] += delta[j] * all[l][i];
          below[i] += delta[j] * this.weights[row + i];
        }
        if (into) into[bias + j] += delta[j];
      }
      if (l > 0) for (let i = 0; i < n; i++) below[i] *= 1 - all[l][i] * all[l][i];
      delta = below;
    }
    return delta;
  }
};

Lab.Adam = class {
  constructor(count, rate) {
    this.rate = rate;
    this.mean = new Float64Array(count);
    this.square = new Float64Array(count);
    this.time = 0;
  }

  step(weights, gradient) {
    this.time += 1;
    const [a, b] = [0.5, 0.99];
    const rate = this.rate * Math.sqrt(1 - b ** this.time) / (1 - a ** this.time);
    for (let i = 0; i < weights.length; i++) {
      this.mean[i] = a * this.mean[i] + (1 - a) * gradient[i];
      this.square[i] = b * this.square[i] + (1 - b) * gradient[i] * gradient[i];
      weights[i] -= rate * this.mean[i] / (Math.sqrt(this.square[i]) + 1e-8);
    }
  }
};

Lab.Gan = class {
  // `records` points on a ring of eight clusters; everything follows from the seed.
  constructor({ records = 2000, seed = 1 } = {}) {
    this.random = Lab.random(seed);
    this.records = [];
    for (let i = 0; i < records; i++) {
      const angle = (2 * Math.PI * Math.floor(8 * this.random.uniform())) / 8;
      this.records.push([
        0.7 * Math.cos(angle) + 0.05 * this.random.normal(),
        0.7 * Math.sin(angle) + 0.05 * this.random.normal(),
      ]);
    }
    this.generator = new Lab.Network([2, 32, 32, 2], this.random);
    this.discriminator = new Lab.Network([2, 32, 32, 1], this.random);
    this.generatorSteps = new Lab.Adam(this.generator.weights.length, 2e-3);
    this.discriminatorSteps = new Lab.Adam(this.discriminator.weights.length, 4e-3);
    this.ledger = []; // {noise, rate, count}: what the discriminator's steps released
  }

  latent() {
    return [this.random.normal(), this.random.normal()];
  }

  sample() {
    return this.generator.forward(this.latent())[3];
  }

  // One example's gradient of log(1 + e^-s) (real) or log(1 + e^s) (made), s the score.
  gradientOf(point, real) {
    const all = this.discriminator.forward(point);
    const score = all[3][0];
    const outer = real ? -1 / (1 + Math.exp(score)) : 1 / (1 + Math.exp(-score));
    const gradient = new Float64Array(this.discriminator.weights.length);
    this.discriminator.backward(all, [outer], gradient);
    return gradient;
  }

  // A private step: Poisson batch, each real gradient clipped, noise once; made points need none.
  discriminatorStep({ noise, batch, clip }) {
    const rate = batch / this.records.length;
    const total = new Float64Array(this.discriminator.weights.length);
    for (const record of this.records) {
      if (this.random.uniform() >= rate) continue;
      const gradient = this.gradientOf(record, true);
      let square = 0;
      for (const g of gradient) square += g * g;
      const scale = Math.min(1, clip / Math.max(Math.sqrt(square), 1e-12));
      for (let i = 0; i < total.length; i++) total[i] += scale * gradient[i];
    }
    for (let i = 0; i < total.length; i++) {
      total[i] = (total[i] + noise * clip * this.random.normal()) / batch;
    }
    const made = 64;
    for (let k = 0; k < made; k++) {
      const gradient = this.gradientOf(this.sample(), false);
      let square = 0;
      for (const g of gradient) square += g * g;
      const scale = Math.min(1, clip / Math.max(Math.sqrt(square), 1e-12));
      for (let i = 0; i < total.length; i++) total[i] += scale * gradient[i] / made;
    }
    this.discriminatorSteps.step(this.discriminator.weights, total);
    this.charge(noise, rate);
  }

  charge(noise, rate) {
    const known = this.ledger.find((one) => one.noise === noise && one.rate === rate);
    if (known) known.count += 1;
    else this.ledger.push({ noise, rate, count: 1 });
  }

  // The generator's step: it sees the discriminator alone, and costs nothing.
  generatorStep() {
    const total = new Float64Array(this.generator.weights.length);
    const made = 64;
    for (let k = 0; k < made; k++) {
      const all = this.generator.forward(this.latent());
      const judged = this.discriminator.forward(all[3]);
      const outer = -1 / (1 + Math.exp(judged[3][0])) / made;
      const below = this.discriminator.backward(judged, [outer], null);
      this.generator.backward(all, below, total);
    }
    this.generatorSteps.step(this.generator.weights, total);
  }

  step(settings) {
    for (let k = 0; k < settings.perGenerator; k++) this.discriminatorStep(settings);
    this.generatorStep();
  }

  get steps() {
    return this.ledger.reduce((sum, one) => sum + one.count, 0);
  }

  // How far made points are from the nearest cluster, on average, and how many clusters they reach.
  quality(count = 200) {
    const random = this.random;
    this.random = Lab.random(99); // looking changes nothing
    const reached = new Set();
    let far = 0;
    for (let k = 0; k < count; k++) {
      const [x, y] = this.sample();
      let best = [Infinity, 0];
      for (let c = 0; c < 8; c++) {
        const angle = (2 * Math.PI * c) / 8;
        const distance = Math.hypot(x - 0.7 * Math.cos(angle), y - 0.7 * Math.sin(angle));
        if (distance < best[0]) best = [distance, c];
      }
      far += best[0] / count;
      if (best[0] < 0.15) reached.add(best[1]);
    }
    this.random = random;
    return { far, reached: reached.size };
  }
};
