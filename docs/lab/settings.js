// What can be set, the presets, and the settings in the page's address.
"use strict";

var Lab = Lab || {};

Lab.settings = (function () {
  const CHOICES = {
    noise: [0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9, 10],
    batch: [16, 32, 64, 128, 256, 512, 1000],
    records: [200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000, 1000000],
    clip: [0.1, 0.2, 0.5, 1, 2, 5, 10],
    perGenerator: [1, 2, 3, 4, 5],
    steps: [100, 200, 500, 1000, 2000, 3000, 4000, 6000, 10000],
  };
  const common = { batch: 256, clip: 1, perGenerator: 2, steps: 2000 };
  const PRESETS = {
    private: { ...common, noise: 1.5, records: 20000 },
    few: { ...common, noise: 1.5, records: 2000 },
    loud: { ...common, noise: 9, records: 2000 },
    none: { ...common, noise: 0, records: 2000 },
  };
  const WATCH = {
    private: "Watch the green dots find all eight clusters while epsilon stays below 2.",
    few: "Watch the same picture form from a tenth of the people, while epsilon rises far above 10.",
    loud: "Watch noise alone protect 2,000 people: epsilon stays below 3, and clusters stay empty.",
    none: "Watch the dots settle soon, with no promise to anyone. GANs may leave a cluster empty even so.",
  };

  // The settings of an address such as #noise=1&seed=3; what it does not name is the opening run's.
  function read(hash) {
    const given = new URLSearchParams(hash.replace(/^#/, ""));
    const found = { ...PRESETS.private, seed: 1 };
    for (const name in CHOICES) {
      if (given.has(name) && CHOICES[name].includes(Number(given.get(name)))) found[name] = Number(given.get(name));
    }
    const seed = Number(given.get("seed"));
    if (Number.isInteger(seed) && seed > 0 && seed < 1e6) found.seed = seed;
    return found;
  }

  const write = (chosen) => `#${new URLSearchParams(chosen)}`;

  // The name of the preset with these settings, or "" for settings of one's own.
  const preset = (chosen) =>
    Object.keys(PRESETS).find((one) => Object.keys(CHOICES).every((name) => PRESETS[one][name] === chosen[name])) || "";

  return { CHOICES, PRESETS, WATCH, read, write, preset };
})();
