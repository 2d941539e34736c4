// The page where a GAN trains: the picture, the sliders, the meter and the game.
"use strict";

(function () {
  const CHOICES = {
    noise: [0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9, 10],
    batch: [16, 32, 64, 128, 256, 512, 1000],
    clip: [0.1, 0.2, 0.5, 1, 2, 5, 10],
    perGenerator: [0, 1, 2, 3, 4, 5],
  };
  const DELTA = 1e-5;
  const [REAL, MADE] = ["#d55e00", "#009e73"];
  const at = (id) => document.getElementById(id);
  const canvas = at("field");
  const draw = canvas.getContext("2d");
  let gan, attacker;
  let running = false;

  function settings() {
    const found = {};
    for (const name in CHOICES) found[name] = CHOICES[name][Number(at(name).value)];
    return found;
  }

  // Significant digits of an upper bound, rounded up: it stays a bound.
  function rounded(value, digits) {
    if (value === Infinity || value === 0) return value;
    const unit = 10 ** (Math.floor(Math.log10(value)) + 1 - digits);
    const up = Number((Math.ceil(value / unit) * unit).toPrecision(digits));
    return up >= value ? up : Number((up + unit).toPrecision(digits));
  }

  function show(epsilon) {
    return epsilon === Infinity ? "no finite epsilon" : String(rounded(epsilon, 3));
  }

  function picture() {
    const side = canvas.width;
    const place = (v) => ((v + 1.2) / 2.4) * side;
    const cells = 40;
    for (let i = 0; i < cells; i++) {
      for (let j = 0; j < cells; j++) {
        const point = [((i + 0.5) / cells) * 2.4 - 1.2, ((j + 0.5) / cells) * 2.4 - 1.2];
        const real = 1 / (1 + Math.exp(-gan.discriminator.forward(point)[3][0]));
        const c = Math.round(255 - 110 * real);
        draw.fillStyle = `rgb(${c}, ${Math.min(255, c + 30)}, ${Math.min(255, c + 60)})`;
        draw.fillRect((i * side) / cells, (j * side) / cells, side / cells + 1, side / cells + 1);
      }
    }
    const dots = (points, colour, size) => {
      draw.fillStyle = colour;
      for (const [x, y] of points) draw.fillRect(place(x) - size / 2, place(y) - size / 2, size, size);
    };
    dots(gan.records.slice(0, 500), REAL, 3);
    const looked = gan.random;
    gan.random = Lab.random(7); // the same latents in each picture
    dots(Array.from({ length: 250 }, () => gan.sample()), MADE, 4);
    gan.random = looked;
  }

  function meter() {
    Lab.page.epsilon = Lab.accountant.epsilon(gan.ledger, DELTA);
    at("epsilon").textContent = show(Lab.page.epsilon);
    at("after").textContent = `after ${gan.steps.toLocaleString("en")} steps of D`;
    const { far, reached } = gan.quality();
    at("quality").textContent =
      `Points made lie ${far.toFixed(2)} from the nearest cluster on average, and reach ${reached} of 8.`;
  }

  function labels() {
    const chosen = settings();
    for (const name in CHOICES) {
      const text = name === "noise" && !chosen.noise ? "none" : String(chosen[name]);
      at(`${name}-value`).textContent = text;
      at(name).setAttribute("aria-valuetext", text);
    }
  }

  function game(said) {
    const { noise, seen } = attacker.now;
    const wide = 360;
    const reach = Math.max(2.5, 3.2 * noise);
    const place = (v) => ((v - 0.5 + reach) / (2 * reach)) * wide;
    let svg = `<line x1="0" y1="70" x2="${wide}" y2="70" stroke="#666"/>`;
    for (const [mean, name, colour] of [[0, "out", "#666"], [1, "in", "#0072b2"]]) {
      const points = [];
      for (let k = 0; noise > 0 && k <= 120; k++) {
        const v = 0.5 - reach + (2 * reach * k) / 120;
        points.push(`${place(v).toFixed(1)},${(70 - 52 * Math.exp(-((v - mean) ** 2) / (2 * noise * noise))).toFixed(1)}`);
      }
      svg += `<polyline points="${points.join(" ")}" fill="none" stroke="${colour}" stroke-width="2"/>`;
      svg += `<text x="${place(mean)}" y="86" text-anchor="middle" fill="${colour}">${mean} ${name}</text>`;
    }
    const x = Math.min(wide - 4, Math.max(4, place(seen)));
    at("seen").innerHTML = `${svg}<circle cx="${x}" cy="70" r="6" fill="#d55e00"/>`;
    const rounds = attacker.rounds.length;
    const best = (100 * Lab.Attacker.best(noise)).toFixed(0);
    const own = rounds ? `${attacker.right} of ${rounds} right. ` : "";
    at("score").textContent = `${said || ""}${own}The best rule is right in ${best} % of rounds, on average.`;
  }

  function frame() {
    if (!running) return;
    const until = performance.now() + 30;
    const chosen = settings();
    do gan.step(chosen); while (performance.now() < until);
    picture();
    meter();
    requestAnimationFrame(frame);
  }

  function run(on) {
    running = on;
    at("run").textContent = on ? "Pause" : "Run";
    if (on) requestAnimationFrame(frame);
  }

  function reset() {
    gan = new Lab.Gan({ seed: 1 });
    attacker = new Lab.Attacker(2);
    attacker.deal(settings().noise);
    Lab.page.gan = gan;
    picture();
    meter();
    game();
  }

  Lab.page = { settings, rounded, steps: (count) => { for (let k = 0; k < count; k++) gan.step(settings()); picture(); meter(); } };
  at("run").onclick = () => run(!running);
  at("one").onclick = () => Lab.page.steps(1);
  at("reset").onclick = () => { run(false); reset(); };
  at("in").onclick = () => game(attacker.guess(true) ? "Right. " : "No. ");
  at("out").onclick = () => game(attacker.guess(false) ? "Right. " : "No. ");
  at("preset").onchange = () => {
    if (!at("preset").value) return;
    const values = at("preset").value.split(",").map(Number);
    Object.keys(CHOICES).forEach((name, i) => { at(name).value = CHOICES[name].indexOf(values[i]); });
    labels();
    attacker.deal(settings().noise);
    game();
  };
  for (const name in CHOICES) {
    at(name).oninput = () => {
      at("preset").value = "";
      labels();
      if (name === "noise") { attacker.deal(settings().noise); game(); }
    };
  }
  for (const name of ["train", "price"]) {
    at(`tab-${name}`).onclick = () => {
      for (const one of ["train", "price"]) {
        at(one).hidden = one !== name;
        at(`tab-${one}`).setAttribute("aria-selected", String(one === name));
      }
      if (name !== "train") run(false);
    };
  }
  labels();
  reset();
})();
