// The page where a GAN trains: the buttons, the sliders, the meter and the game.
"use strict";

(function () {
  const { CHOICES, PRESETS, WATCH } = Lab.settings;
  const DELTA = 1e-5;
  const MANY = 100000; // people, from which on delta 1e-5 is too large
  const at = (id) => document.getElementById(id);
  const counted = (number) => number.toLocaleString("en");
  let gan, attacker, curves;
  let running = false;
  let looked = 0;

  function settings() {
    const found = {};
    for (const name in CHOICES) found[name] = CHOICES[name][Number(at(name).value)];
    return { ...found, seed: Math.min(999999, Math.max(1, Math.floor(Number(at("seed").value)) || 1)) };
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

  // The price of a ledger's steps if so many people had taken part.
  function price(ledger, records) {
    return Lab.accountant.epsilon(
      ledger.map((one) => ({ noise: one.noise, rate: Lab.rate(one.batch, records), count: one.count })), DELTA);
  }

  function meter() {
    const { records, steps, noise, batch } = settings();
    const left = Math.max(0, steps - gan.steps);
    const planned = [...gan.ledger, { noise, batch, count: left }];
    const now = price(gan.ledger, records);
    const whole = price(planned, records);
    const begun = gan.steps > 0;
    at("epsilon").textContent = show(now);
    at("after").textContent = `after ${counted(gan.steps)} steps of D`;
    at("planned").textContent = left && whole < Infinity ? `${counted(steps)} steps will cost epsilon ${show(whole)}.` : "";
    const base = begun ? now : whole;
    at("ten").textContent = base < Infinity
      ? `The same run, ten times as many people: epsilon ${show(price(begun ? gan.ledger : planned, 10 * records))} instead of ${show(base)}.`
      : "Without noise no number of people makes epsilon finite.";
    const other = gan.ledger.some((one) => one.records !== records);
    at("note").textContent = (other ? "The steps so far are priced as if so many people had taken part. " : "")
      + (records >= MANY ? `For ${counted(records)} people delta should be smaller: a release that exposes `
        + "one person in 100,000 would pass. " : "");
    const { far, reached } = gan.quality();
    at("quality").textContent = `${reached} of 8 clusters reached; points are ${far.toFixed(2)} off on average.`;
    at("run").textContent = running ? "Pause" : left ? "Run" : "Run again";
    draw({ now, whole, steps, reached });
  }

  // One point of the curves for each fortieth of the run.
  function record() {
    const { records, steps } = settings();
    const last = curves[curves.length - 1];
    if (last && gan.steps < last.steps + steps / 40) return;
    const ledger = gan.ledger.map((one) => ({ ...one }));
    curves.push({ steps: gan.steps, ledger, epsilon: price(ledger, records), reached: gan.quality().reached });
  }

  function draw({ now, whole, steps, reached }) {
    const last = Math.max(steps, gan.steps);
    const ends = [...curves, { steps: gan.steps, epsilon: now, reached }];
    const finite = ends.map((one) => one.epsilon).filter(Number.isFinite);
    const most = Math.max(...finite, Number.isFinite(whole) ? whole : 0) || 1;
    Lab.pictures.curve(at("spent"), {
      points: ends.map((one) => [one.steps, one.epsilon]), last, top: Lab.pictures.ceiling(most),
      name: "epsilon", ink: "pink", absent: whole === Infinity ? "no finite epsilon" : "",
    });
    Lab.pictures.curve(at("reached"), {
      points: ends.map((one) => [one.steps, one.reached]), last, top: 8, name: "clusters reached", ink: "green",
    });
    at("spent").setAttribute("aria-label", `Epsilon over steps of D, now ${show(now)} after ${counted(gan.steps)}`);
    at("reached").setAttribute("aria-label", `Clusters reached over steps of D, now ${reached} of 8`);
    Lab.pictures.field(at("field"), gan);
    const longer = Math.round(100 * Lab.pictures.cloud(at("cloud"), gan, settings()));
    at("clipped").textContent = `${longer} % of gradients are longer than the clip norm.`;
  }

  function labels() {
    const chosen = settings();
    for (const name in CHOICES) {
      const text = name === "noise" && !chosen.noise ? "none" : counted(chosen[name]);
      at(`${name}-value`).textContent = text;
      at(name).setAttribute("aria-valuetext", text);
    }
    const preset = Lab.settings.preset(chosen);
    at("preset").value = preset;
    at("watch").textContent = WATCH[preset] || "Settings of your own: the address of this page holds them.";
    at("people").textContent = counted(chosen.records);
    history.replaceState(null, "", Lab.settings.write(chosen));
  }

  const wide = 360; // of the game's drawing
  const reach = () => Math.max(2.5, 3.2 * attacker.now.noise); // clip norms, each way from 0.5

  // The round as it stands; the sum is hidden while the record is moved.
  function game(said, moving) {
    const { noise, seen } = attacker.now;
    const { length, adds } = attacker;
    const place = (v) => ((v - 0.5 + reach()) / (2 * reach())) * wide;
    let svg = `<line x1="0" y1="70" x2="${wide}" y2="70" stroke="var(--grey)"/>`;
    for (const [mean, name, colour, anchor] of [[0, "out", "grey", "end"], [adds, "in", "blue", "start"]]) {
      const points = [];
      for (let k = 0; noise > 0 && k <= 120; k++) {
        const v = 0.5 - reach() + (2 * reach() * k) / 120;
        points.push(`${place(v).toFixed(1)},${(70 - 52 * Math.exp(-((v - mean) ** 2) / (2 * noise * noise))).toFixed(1)}`);
      }
      svg += `<polyline points="${points.join(" ")}" fill="none" stroke="var(--${colour})" stroke-width="2"/>`
        + `<text x="${place(mean)}" y="88" text-anchor="${anchor}" fill="var(--${colour})">${name}: ${mean}</text>`;
    }
    const x = Math.min(wide - 6, Math.max(6, place(seen)));
    svg += `<line x1="${place(0)}" y1="106" x2="${place(length)}" y2="106" stroke="var(--blue)"/>`
      + `<circle cx="${place(adds)}" cy="106" r="3" fill="var(--blue)"/>`
      + `<circle cx="${place(length)}" cy="106" r="7" fill="transparent" stroke="var(--blue)" stroke-width="2"/>`
      + `<text x="${place(length) + 14}" y="110">record: ${length}</text>`;
    at("seen").innerHTML = svg + (moving ? "" : `<circle cx="${x}" cy="70" r="6" fill="var(--orange)"/>`);
    at("seen").setAttribute("aria-valuenow", length);
    at("seen").setAttribute("aria-label", "Length of the record's gradient, in clip norms. "
      + `You see ${seen.toFixed(2)}; 0 is expected when out, ${adds} when in`);
    const rounds = attacker.rounds.length;
    const best = (100 * attacker.best(noise)).toFixed(0);
    const own = rounds ? `${attacker.right} of ${rounds} right. ` : "";
    at("score").textContent = `${said || ""}${own}At this noise the best possible attacker is right ${best} % of the time.`;
  }

  function train(until) {
    const chosen = settings();
    do {
      gan.step(chosen);
      record();
    } while (until(chosen));
  }

  function frame(time) {
    if (!running) return;
    const end = performance.now() + 25;
    train((chosen) => gan.steps < chosen.steps && performance.now() < end);
    if (gan.steps >= settings().steps) run(false);
    else if (time > looked + 250) { looked = time; meter(); }
    else Lab.pictures.field(at("field"), gan);
    requestAnimationFrame(frame);
  }

  function run(on) {
    if (on && gan.steps >= settings().steps) reset();
    running = on;
    meter();
    if (on) requestAnimationFrame(frame);
  }

  // Train on so many records from now on, and price the steps so far as if it had been so many before.
  function people(records) {
    gan.populate(records);
    for (const one of curves) one.epsilon = price(one.ledger, records);
  }

  function deal() {
    attacker.deal(settings().noise);
    game();
  }

  // The record's gradient has another length, of at most two clip norms: another round.
  function lengthen(length, moving) {
    attacker.length = Math.min(2, Math.max(0, Math.round(20 * length) / 20));
    if (moving) game("", true);
    else deal();
  }

  function drag(event) {
    if (event.type === "pointerdown") at("seen").setPointerCapture(event.pointerId);
    else if (!event.buttons) return;
    const { left, width } = at("seen").getBoundingClientRect();
    lengthen(0.5 - reach() + (2 * reach() * (event.clientX - left)) / width, true);
  }

  function reset() {
    running = false;
    const { records, seed } = settings();
    gan = Lab.page.gan = new Lab.Gan({ seed, records });
    curves = [];
    record();
    attacker = new Lab.Attacker(seed + 1);
    deal();
    labels();
    meter();
  }

  // Show these settings and begin with them.
  function choose(chosen) {
    for (const name in CHOICES) at(name).value = CHOICES[name].indexOf(chosen[name]);
    at("seed").value = chosen.seed;
    reset();
  }

  function open(name) {
    for (const one of ["train", "price"]) {
      at(one).hidden = one !== name;
      at(`tab-${one}`).setAttribute("aria-selected", String(one === name));
    }
    if (name === "price" && running) run(false);
    if (name === "train") { meter(); labels(); }
    else history.replaceState(null, "", "#price");
  }

  // Follow the address: #price is the other part, #what the article (after which the settings return).
  function address() {
    if (location.hash === "#price") open("price");
    else if (location.hash.includes("=")) choose(Lab.settings.read(location.hash));
    else labels();
  }

  Lab.page = {
    settings, rounded,
    steps: (count) => { let k = 0; train(() => ++k < count); meter(); },
  };
  for (const name in CHOICES) at(name).max = CHOICES[name].length - 1;
  at("run").onclick = () => run(!running);
  at("one").onclick = () => Lab.page.steps(1);
  at("reset").onclick = reset;
  at("in").onclick = () => game(attacker.guess(true) ? "Right. " : "No. ");
  at("out").onclick = () => game(attacker.guess(false) ? "Right. " : "No. ");
  at("seen").onpointerdown = at("seen").onpointermove = drag;
  at("seen").onpointerup = deal;
  at("seen").onkeydown = (event) => {
    const way = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!way) return;
    event.preventDefault(); // no scrolling
    lengthen(attacker.length + way / 10);
  };
  at("preset").onchange = () => {
    if (at("preset").value) choose({ ...PRESETS[at("preset").value], seed: settings().seed });
  };
  at("seed").onchange = reset;
  at("to-what").onclick = () => open("train");
  for (const name in CHOICES) {
    at(name).oninput = () => {
      labels();
      if (name === "records") people(settings().records);
      if (name === "noise") deal();
      meter();
    };
  }

  for (const name of ["train", "price"]) at(`tab-${name}`).onclick = () => open(name);
  window.addEventListener("hashchange", address);
  window.addEventListener("resize", () => { if (!at("train").hidden) meter(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => meter());
  const first = location.hash; // labels write another
  choose(Lab.settings.read(first));
  if (first === "#price") open("price");
})();
