// The drawings: points in the plane, two curves over steps, and a batch's gradients.
"use strict";

var Lab = Lab || {};

Lab.pictures = (function () {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  // A canvas as large as it is shown, in pixels of the screen.
  function fit(canvas) {
    const [wide, high] = [canvas.clientWidth, canvas.clientHeight];
    const dense = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(wide * dense)) canvas.width = Math.round(wide * dense);
    if (canvas.height !== Math.round(high * dense)) canvas.height = Math.round(high * dense);
    const draw = canvas.getContext("2d");
    draw.setTransform(dense, 0, 0, dense, 0, 0);
    draw.clearRect(0, 0, wide, high);
    draw.font = "12px system-ui, sans-serif";
    draw.lineWidth = 1;
    draw.setLineDash([]);
    return [draw, wide, high];
  }

  function dot(draw, x, y, radius) {
    draw.beginPath();
    draw.arc(x, y, radius, 0, 2 * Math.PI);
  }

  function field(canvas, gan) {
    const [draw, side] = fit(canvas);
    const place = (v) => ((v + 1.2) / 2.4) * side;
    const cells = 40;
    draw.fillStyle = colour("shade");
    for (let i = 0; i < cells; i++) {
      for (let j = 0; j < cells; j++) {
        const point = [((i + 0.5) / cells) * 2.4 - 1.2, ((j + 0.5) / cells) * 2.4 - 1.2];
        draw.globalAlpha = 1 / (1 + Math.exp(-gan.discriminator.forward(point)[3][0]));
        const [left, right] = [Math.round((i * side) / cells), Math.round(((i + 1) * side) / cells)];
        const [top, bottom] = [Math.round((j * side) / cells), Math.round(((j + 1) * side) / cells)];
        draw.fillRect(left, top, right - left, bottom - top);
      }
    }
    draw.globalAlpha = 1;
    draw.fillStyle = colour("orange");
    for (let i = 0; i < Math.min(500, gan.records); i++) {
      const [x, y] = gan.record(i).map(place);
      draw.fillRect(x - 1.5, y - 1.5, 3, 3);
    }
    const random = gan.random;
    gan.random = Lab.random(7); // the same latents in each picture
    draw.fillStyle = colour("green");
    draw.strokeStyle = colour("paper");
    for (let k = 0; k < 250; k++) {
      const [x, y] = gan.sample().map(place);
      dot(draw, x, y, 3.2);
      draw.fill();
      draw.stroke();
    }
    gan.random = random;
  }

  // A round number at or above the value: 1, 2 or 5 times a power of ten.
  function ceiling(value) {
    const unit = 10 ** Math.floor(Math.log10(value));
    return [1, 2, 5, 10].map((one) => one * unit).find((one) => one >= value * (1 - 1e-9));
  }

  // One curve: points [steps, value], up to the last step and a round value.
  function curve(canvas, { points, last, top, name, ink, absent }) {
    const [draw, wide, high] = fit(canvas);
    const [left, right, up, down] = [38, wide - 8, 22, high - 32];
    const x = (steps) => left + ((right - left) * steps) / last;
    const y = (value) => down - ((down - up) * Math.min(value, top)) / top;
    draw.fillStyle = colour("ink");
    draw.strokeStyle = colour("line");
    draw.textAlign = "right";
    draw.textBaseline = "middle";
    for (const value of [0, top / 2, top]) {
      draw.strokeRect(left, y(value), right - left, 0);
      draw.fillText(Number(value.toPrecision(3)).toLocaleString("en"), left - 5, y(value));
    }
    draw.textBaseline = "alphabetic";
    draw.fillText(last.toLocaleString("en"), right, high - 18);
    draw.textAlign = "left";
    draw.fillText("0", left, high - 18);
    draw.fillText(name, 2, 11);
    draw.textAlign = "center";
    draw.fillText("steps of D", (left + right) / 2, high - 4);
    if (absent) draw.fillText(absent, (left + right) / 2, (up + down) / 2 - 12);
    draw.strokeStyle = draw.fillStyle = colour(ink);
    draw.lineWidth = 2;
    draw.beginPath();
    for (const [steps, value] of points) if (Number.isFinite(value)) draw.lineTo(x(steps), y(value));
    draw.stroke();
    const end = points[points.length - 1];
    if (end && Number.isFinite(end[1])) {
      dot(draw, x(end[0]), y(end[1]), 3.5);
      draw.fill();
    }
  }

  // Gradients of the first records along two directions: their mean's, and the one they vary most in.
  function directions(rows, former) {
    const size = rows[0].length;
    const dotted = (a, b) => a.reduce((sum, one, i) => sum + one * b[i], 0);
    const unit = (a) => { const length = Math.sqrt(dotted(a, a)) || 1; return a.map((one) => one / length); };
    const mean = new Float64Array(size);
    for (const row of rows) row.forEach((one, i) => { mean[i] += one / rows.length; });
    const first = unit(mean);
    let second = former || rows[0];
    for (let round = 0; round < 4; round++) { // power iteration, across the first
      const next = new Float64Array(size);
      for (const row of rows) {
        const along = dotted(row, second) - dotted(row, first) * dotted(first, second);
        row.forEach((one, i) => { next[i] += along * one; });
      }
      const share = dotted(next, first);
      second = unit(next.map((one, i) => one - share * first[i]));
    }
    return { second, flat: (row) => [dotted(row, first), dotted(row, second)] };
  }

  let second = null;

  function cloud(canvas, gan, { noise, clip }) {
    const [draw, wide, high] = fit(canvas);
    const rows = [];
    for (let i = 0; i < 60; i++) rows.push(gan.gradientOf(gan.record(i), true));
    const seen = directions(rows, second);
    second = seen.second;
    const reach = Math.max(1.15 * noise, 2.2) * clip;
    const scale = Math.min(wide, high) / 2 / reach;
    const place = ([x, y]) => { // at the frame's edge, in the same direction, if it lies outside
      const inside = Math.min(scale, (wide / 2 - 4) / Math.abs(x), (high / 2 - 4) / Math.abs(y));
      return [wide / 2 + x * inside, high / 2 + y * inside];
    };
    let longer = 0;
    const ends = rows.map((row) => {
      const norm = Math.sqrt(row.reduce((sum, one) => sum + one * one, 0));
      if (norm > clip) longer += 1;
      const raw = seen.flat(row);
      return [place(raw), place(raw.map((v) => v * Math.min(1, clip / norm)))];
    });
    draw.strokeStyle = draw.fillStyle = colour("orange");
    for (const [before, after] of ends) {
      draw.globalAlpha = 0.45;
      draw.beginPath();
      draw.moveTo(...before);
      draw.lineTo(...after);
      draw.stroke();
      dot(draw, ...before, 2.5);
      draw.stroke();
      draw.globalAlpha = 1;
      dot(draw, ...after, 2.2);
      draw.fill();
    }
    draw.lineWidth = 2;
    draw.strokeStyle = colour("blue");
    dot(draw, wide / 2, high / 2, clip * scale);
    draw.stroke();
    draw.setLineDash([6, 4]);
    draw.strokeStyle = colour("ink");
    dot(draw, wide / 2, high / 2, noise * clip * scale);
    if (noise > 0) draw.stroke();
    return longer / rows.length;
  }

  return { field, curve, cloud, ceiling };
})();
