// The page that prices a run: the certified pair on a stored grid, Renyi DP computed here.
"use strict";

(function () {
  const at = (id) => document.getElementById(id);
  const grid = Lab.grid;
  const axes = { noise: grid.noise, rate: grid.rate, steps: grid.steps };
  const first = { noise: 1.1, rate: 0.01, steps: 10000 };

  function chosen() {
    const found = {};
    let index = 0;
    for (const name in axes) {
      const i = Number(at(`g-${name}`).value);
      found[name] = axes[name][i];
      index = index * axes[name].length + i;
    }
    return { ...found, lower: grid.lower[index], upper: grid.upper[index] };
  }

  const finite = (value) => (value === null ? Infinity : value);
  const told = (value) => (value === Infinity ? "none" : Number(value.toPrecision(4)).toString());

  function show() {
    const run = chosen();
    const ledger = [{ noise: run.noise, rate: run.rate, count: run.steps }];
    const upper = finite(run.upper);
    const renyi = Lab.accountant.epsilon(ledger, grid.delta);
    for (const name in axes) {
      const text = name === "steps" ? run.steps.toLocaleString("en") : String(run[name]);
      at(`g-${name}-value`).textContent = text;
      at(`g-${name}`).setAttribute("aria-valuetext", text);
    }
    at("sentence").textContent = `This run costs ${told(run.lower)} to ${told(upper)}.`;
    at("rows").innerHTML = [
      ["PLD, certified", told(run.lower), told(upper)],
      ["Rényi DP", "", told(Lab.page.rounded(renyi, 4))],
    ].map((row) => `<tr>${row.map((cell) => `<td>${cell}</td>`).join("")}</tr>`).join("");
    at("line").textContent = `python -m dpkit epsilon --accountant pld --noise-multiplier ${run.noise} `
      + `--sample-rate ${run.rate} --steps ${run.steps} --delta 1e-5`;
    bars(run.lower, upper, renyi);
    Lab.priced = { ...run, renyi };
  }

  function bars(lower, upper, renyi) {
    const [low, high] = [0.001, 1000];
    const [left, wide] = window.innerWidth > 600 ? [120, 480] : [95, 235]; // letters keep their size
    at("bars").setAttribute("viewBox", `0 0 ${left + wide + 40} 190`);
    const clamp = (value) => Math.min(high, Math.max(low, value));
    const place = (value) => left + (wide * Math.log(clamp(value) / low)) / Math.log(high / low);
    let svg = "";
    for (let power = -3; power <= 3; power++) {
      const x = place(10 ** power);
      svg += `<line x1="${x}" y1="20" x2="${x}" y2="130" stroke="var(--line)"/>`
        + `<text x="${x}" y="148" text-anchor="middle">${10 ** power}</text>`;
    }
    svg += `<text x="${left + wide / 2}" y="172" text-anchor="middle">epsilon at delta 1e-5</text>`;
    const start = place(lower);
    svg += '<text x="0" y="54">PLD, certified</text><text x="0" y="104">Rényi DP</text>'
      + `<rect x="${start}" y="40" width="${Math.max(3, place(upper) - start)}" height="20" fill="var(--blue)"/>`
      + `<circle cx="${place(renyi)}" cy="100" r="7" fill="var(--pink)"/>`;
    at("bars").innerHTML = svg;
  }

  for (const name in axes) {
    const slider = at(`g-${name}`);
    slider.max = axes[name].length - 1;
    slider.value = axes[name].indexOf(first[name]);
    slider.oninput = show;
  }
  window.onresize = show;
  show();
})();
