// The attacker's game: one noisy sum along the record's gradient, in or out?
"use strict";

var Lab = Lab || {};

Lab.normalBelow = function (x) { // the normal distribution function, absolute error below 1e-7
  const t = 1 / (1 + 0.2316419 * Math.abs(x));
  const density = Math.exp(-x * x / 2) / Math.sqrt(2 * Math.PI);
  const tail = density * t * (0.31938153 + t * (-0.356563782 + t * (1.781477937
    + t * (-1.821255978 + t * 1.330274429))));
  return x >= 0 ? 1 - tail : tail;
};

Lab.Attacker = class {
  constructor(seed) {
    this.random = Lab.random(seed);
    this.rounds = [];
    this.right = 0;
    this.length = 1; // of the record's gradient, in clip norms
  }

  // What the record adds to the sum: its gradient is clipped.
  get adds() {
    return Math.min(1, this.length);
  }

  // The share of rounds that the best rule gets right: say "in" above half of what the record adds.
  best(noise) {
    if (!this.adds) return 0.5;
    return noise > 0 ? Lab.normalBelow(this.adds / (2 * noise)) : 1;
  }

  deal(noise) {
    const present = this.random.uniform() < 0.5;
    this.now = { present, noise, seen: (present ? this.adds : 0) + noise * this.random.normal() };
  }

  guess(present) {
    const right = present === this.now.present;
    this.right += right ? 1 : 0;
    this.rounds.push({ ...this.now, guessed: present, right });
    this.deal(this.now.noise);
    return right;
  }
};
