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
    this.all = sizes.map((size) => new Float64Array(size));
    this.slopes = sizes.map((size) => new Float64Array(size));
  }

  // The activations of every layer for one input, the last one linear; the next call overwrites them.
  forward(input) {
    const { all, weights, sizes } = this;
    all[0].set(input);
    for (let l = 0; l + 1 < sizes.length; l++) {
      const [n, m] = [sizes[l], sizes[l + 1]];
      const [below, above] = [all[l], all[l + 1]];
      const last = l + 2 === sizes.length;
      let place = this.offsets[l];
      const bias = place + n * m;
      for (let j = 0; j < m; j++) {
        let sum = weights[bias + j];
        for (let i = 0; i < n; i++) sum += weights[place++] * below[i];
        above[j] = last ? sum : Math.tanh(sum);
      }
    }
    return all;
  }

  // The slopes of every layer after the last forward, for this slope of the output; returns the input's.
  backward(outer) {
    const { all, weights, sizes, slopes } = this;
    slopes[sizes.length - 1].set(outer);
    for (let l = sizes.length - 2; l >= 0; l--) {
      const [n, m] = [sizes[l], sizes[l + 1]];
      const [input, below, above] = [all[l], slopes[l], slopes[l + 1]];
      let place = this.offsets[l];
      below.fill(0);
      for (let j = 0; j < m; j++) {
        const slope = above[j];
        for (let i = 0; i < n; i++) below[i] += slope * weights[place++];
      }
      if (l > 0) for (let i = 0; i < n; i++) below[i] *= 1 - input[i] * input[i];
    }
    return slopes[0];
  }

  // The norm of the gradient after the last backward: each layer's is an outer product, (a, 1) times slopes.
  norm() {
    let square = 0;
    for (let l = 0; l + 1 < this.sizes.length; l++) {
      let [inputs, slopes] = [1, 0];
      for (const a of this.all[l]) inputs += a * a;
      for (const s of this.slopes[l + 1]) slopes += s * s;
      square += inputs * slopes;
    }
    return Math.sqrt(square);
  }

  // Adds the gradient after the last backward, times a factor.
  add(into, factor) {
    for (let l = 0; l + 1 < this.sizes.length; l++) {
      const [n, m] = [this.sizes[l], this.sizes[l + 1]];
      const [input, above] = [this.all[l], this.slopes[l + 1]];
      let place = this.offsets[l];
      const bias = place + n * m;
      for (let j = 0; j < m; j++) {
        const slope = factor * above[j];
        for (let i = 0; i < n; i++) into[place++] += slope * input[i];
        into[bias + j] += slope;
      }
    }
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
    this.people = Lab.random(seed + 1000003); // a stream of their own: fewer records are the first ones
    this.points = []; // x, y, x, y, ...
    this.populate(records);
    this.generator = new Lab.Network([2, 32, 32, 2], this.random);
    this.discriminator = new Lab.Network([2, 32, 32, 1], this.random);
    this.generatorSteps = new Lab.Adam(this.generator.weights.length, 4e-3);
    this.discriminatorSteps = new Lab.Adam(this.discriminator.weights.length, 8e-3);
    this.ledger = []; // {noise, batch, records, count}: the releases of the discriminator's steps
  }

  // Train on so many records from now on.
  populate(records) {
    this.records = records;
    while (this.points.length < 2 * records) {
      const angle = (2 * Math.PI * Math.floor(8 * this.people.uniform())) / 8;
      this.points.push(0.7 * Math.cos(angle) + 0.05 * this.people.normal());
      this.points.push(0.7 * Math.sin(angle) + 0.05 * this.people.normal());
    }
  }

  record(i) {
    return [this.points[2 * i], this.points[2 * i + 1]];
  }

  latent() {
    return [this.random.normal(), this.random.normal()];
  }

  sample() {
    return [...this.generator.forward(this.latent())[3]];
  }

  // Backward for one example's loss, log(1 + e^-s) (real) or log(1 + e^s) (made), s the score.
  judge(point, real) {
    const score = this.discriminator.forward(point)[3][0];
    this.discriminator.backward([real ? -1 / (1 + Math.exp(score)) : 1 / (1 + Math.exp(-score))]);
  }

  gradientOf(point, real) {
    const gradient = new Float64Array(this.discriminator.weights.length);
    this.judge(point, real);
    this.discriminator.add(gradient, 1);
    return gradient;
  }

  // Adds one example's gradient, clipped and times a share.
  addClipped(point, real, clip, share, total) {
    this.judge(point, real);
    const norm = this.discriminator.norm();
    this.discriminator.add(total, share * Math.min(1, clip / Math.max(norm, 1e-12)));
  }

  // A private step: Poisson batch, each real gradient clipped, noise once; made points need none.
  discriminatorStep({ noise, batch, clip }) {
    const rate = Lab.rate(batch, this.records);
    const expected = rate * this.records;
    const total = new Float64Array(this.discriminator.weights.length);
    const skip = () => Math.floor(Math.log(1 - this.random.uniform()) / Math.log(1 - rate));
    for (let i = skip(); i < this.records; i += 1 + skip()) { // each record by a coin of its own
      this.addClipped(this.record(i), true, clip, 1, total);
    }
    for (let i = 0; i < total.length; i++) {
      total[i] = (total[i] + noise * clip * this.random.normal()) / expected;
    }
    const made = 64;
    for (let k = 0; k < made; k++) {
      this.addClipped(this.sample(), false, clip, 1 / made, total);
    }
    this.discriminatorSteps.step(this.discriminator.weights, total);
    this.charge(noise, batch);
  }

  charge(noise, batch) {
    const { records } = this;
    const known = this.ledger.find((one) => one.noise === noise && one.batch === batch && one.records === records);
    if (known) known.count += 1;
    else this.ledger.push({ noise, batch, records, count: 1 });
  }

  // The generator's step: it sees the discriminator alone, and costs nothing.
  generatorStep() {
    const total = new Float64Array(this.generator.weights.length);
    const made = 64;
    for (let k = 0; k < made; k++) {
      const score = this.discriminator.forward(this.generator.forward(this.latent())[3])[3][0];
      this.generator.backward(this.discriminator.backward([-1 / (1 + Math.exp(score)) / made]));
      this.generator.add(total, 1);
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

  // How far made points are from the nearest cluster, on average, and how many clusters they reach:
  // a cluster is reached by a fifth of its fair share, within three deviations.
  quality(count = 400) {
    const random = this.random;
    this.random = Lab.random(99); // looking changes nothing
    const near = new Array(8).fill(0);
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
      if (best[0] < 0.15) near[best[1]] += 1;
    }
    this.random = random;
    return { far, reached: near.filter((one) => one >= count / 40).length };
  }
};

// The chance of each record to be in a batch.
Lab.rate = (batch, records) => Math.min(1, batch / records);
