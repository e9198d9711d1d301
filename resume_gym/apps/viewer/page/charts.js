// Curves over the steps of a run.

const WIDTH = 360;
const HEIGHT = 190;
const LEFT = 44;
const RIGHT = 10;
const TOP = 10;
const BOTTOM = 24;
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "4 4", "1 4", "12 4"];

const colour = (place) => "var(--c" + (place % DASHES.length) + ")";

// Not Math.min(...values): a long run has more values than a call takes arguments.
const extent = (values) =>
  values.reduce(
    ([low, high], one) => [Math.min(low, one), Math.max(high, one)],
    [Infinity, -Infinity],
  );

// Round numbers that part a range into about four, with texts of as many decimals as they need.
function ticks(low, high) {
  const raw = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= raw * 0.999);
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const first = Math.ceil(low / step - 1e-6);
  const count = Math.floor(high / step + 1e-6) - first + 1;
  const values = Array.from({ length: count }, (_, at) => (first + at) * step);
  return values.map((value) => [value, number(value, Math.min(decimals, 3))]);
}

// What a chart is drawn from: for each name its points, as steps and values.
function seriesOf(names) {
  return names.map((name, place) => {
    const rows = index.metrics.filter((one) => typeof one[name] === "number");
    const points = rows.map((one) => ({ step: one.step, value: one[name], sd: one.reward_std }));
    const counts = points.every((one) => Number.isInteger(one.value));
    return { name, place, points, text: (value) => number(value, counts ? 0 : 3) };
  });
}

// Evaluations on held-out tasks, as points, and the floor, as a level.
function heldOut() {
  const last = index.metrics.at(-1).step;
  const stepOf = (name) => ({ before: 0, after: last })[name] ?? Number(name.replace("step ", ""));
  const { floor, ...played } = index.figures;
  const points = Object.entries(played)
    .filter(([, figures]) => typeof figures.reward === "number")
    .map(([name, figures]) => ({ step: stepOf(name), value: figures.reward }));
  const level = floor ? [0, last].map((step) => ({ step, value: floor.reward })) : [];
  const text = (value) => number(value, 3);
  const series = [
    { name: "on held-out tasks", place: 1, points, text, dots: true },
    { name: "floor, an agent that improves nothing", place: 2, points: level, text },
  ];
  return series.filter((one) => one.points.length);
}

// From steps and values to places in the picture, and back.
function frameOf(points, band) {
  const spread = band.flatMap((one) => [one.value - one.sd, one.value + one.sd]);
  let [low, high] = extent([...points.map((one) => one.value), ...spread]);
  if (low === high) {
    const margin = Math.abs(low) / 10 || 1;
    [low, high] = [low - margin, high + margin];
  }
  const [first, last] = extent(points.map((one) => one.step));
  const wide = WIDTH - LEFT - RIGHT;
  const x = (step) => LEFT + wide * (last > first ? (step - first) / (last - first) : 0.5);
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - (value - low) / (high - low));
  const stepAt = (left) => first + ((last - first) * (left - LEFT)) / wide;
  return { low, high, first, last, x, y, stepAt };
}

function path({ x, y }, points) {
  const to = ([step, value]) => x(step).toFixed(1) + " " + y(value).toFixed(1);
  return "M" + points.map(to).join("L");
}

function axes({ low, high, first, last, x, y }) {
  const steps = last > first ? ticks(first, last).map(([step]) => step) : [first];
  return [
    ticks(low, high).map(([value, text]) => [
      s("line.axis", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }),
      s("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, text),
    ]),
    s("text", { x: 2, y: HEIGHT - 6 }, "step"),
    steps
      .filter(Number.isInteger)
      .map((step) =>
        s("text", { x: x(step), y: HEIGHT - 6, "text-anchor": "middle" }, number(step)),
      ),
  ];
}

const stroke = (place, shape, attributes) => {
  const look = { fill: "none", stroke: colour(place), "stroke-width": 2 };
  return s(shape, { ...look, "stroke-dasharray": DASHES[place % DASHES.length], ...attributes });
};
const dot = (place, cx, cy) => s("circle", { cx, cy, r: 3.5, fill: colour(place) });

function curve(frame, { place, points, dots }) {
  if (dots || points.length === 1)
    return points.map(({ step, value }) => dot(place, frame.x(step), frame.y(value)));
  const pairs = points.map((one) => [one.step, one.value]);
  return stroke(place, "path", { d: path(frame, pairs) });
}

// One standard deviation around the reward.
function spread(frame, band) {
  if (band.length < 2) return null;
  const above = band.map((one) => [one.step, one.value + one.sd]);
  const below = band.map((one) => [one.step, one.value - one.sd]).reverse();
  return s("path", { d: path(frame, [...above, ...below]) + "Z", fill: colour(0), opacity: 0.15 });
}

function chart(title, names) {
  const isReward = names[0] === "reward";
  const series = [...seriesOf(names), ...(isReward ? heldOut() : [])];
  const points = series.flatMap((one) => one.points);
  const band = isReward ? points.filter((one) => typeof one.sd === "number") : [];
  const frame = frameOf(points, band);
  const cursor = s("line.cursor", { y1: TOP, y2: HEIGHT - BOTTOM, x1: -9, x2: -9 });
  const svg = s(
    "svg",
    {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      role: "img",
      tabindex: 0,
      id: "chart-" + names[0],
      "aria-label": inWords(title, series),
    },
    axes(frame),
    spread(frame, band),
    series.map((one) => curve(frame, one)),
    cursor,
  );
  const legend = h("ul.legend");
  readable(svg, legend, cursor, series, frame);
  return h("section.card.chart", h("h3", title), svg, legend);
}

// The legend tells the values at a step: the last, the one under the pointer, or by arrow keys.
// A click, or Enter, opens the episodes of that step.
function readable(svg, legend, cursor, series, frame) {
  const all = series.flatMap((one) => one.points.map((point) => point.step));
  const steps = [...new Set(all)].sort((a, b) => a - b);
  let at = steps.length - 1;
  const values = () =>
    series.map(({ name, place, points, text, dots }) => {
      const here = points.find((one) => one.step === steps[at]);
      // what is measured at some steps only: the last of them
      const point = here || (dots && points.findLast((one) => one.step < steps[at]));
      const when = point && !here ? ` (step ${point.step})` : "";
      return { place, dots, name: label(name), value: point ? text(point.value) + when : "none" };
    });
  function read(wanted, isMarked) {
    at = Math.max(0, Math.min(steps.length - 1, wanted));
    for (const end of ["x1", "x2"]) cursor.setAttribute(end, isMarked ? frame.x(steps[at]) : -9);
    const items = values().map(({ place, dots, name, value }) =>
      h("li", swatch(place, dots), name, " ", h("b", value)),
    );
    const title = "step " + steps[at];
    const link = isPlayed(steps[at]) ? h("a", { href: episodesOf(steps[at]) }, title) : title;
    legend.replaceChildren(h("li.muted", link), ...items);
  }
  const under = (event) => {
    const box = svg.getBoundingClientRect();
    const wanted = frame.stepAt(((event.clientX - box.left) / box.width) * WIDTH);
    const distances = steps.map((one) => Math.abs(one - wanted));
    read(distances.indexOf(extent(distances)[0]), true);
  };
  const open = () => {
    if (isPlayed(steps[at])) location.hash = episodesOf(steps[at]);
  };
  svg.addEventListener("pointermove", under);
  svg.addEventListener("pointerleave", () => read(steps.length - 1, false));
  svg.addEventListener("click", (event) => {
    under(event);
    open();
  });
  svg.addEventListener("keydown", (event) => {
    if (event.key === "Enter") open();
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!move) return;
    event.preventDefault();
    read(at + move, true);
    const texts = values().map(({ name, value }) => name + " " + value);
    say("step " + steps[at] + ": " + texts.join(", "));
  });
  read(at, false);
}

const isPlayed = (step) => index.episodes.some((one) => one.step === step);
const episodesOf = (step) => "#/episodes?step=" + step;

function swatch(place, dots) {
  const shape = dots
    ? dot(place, 13, 4)
    : stroke(place, "line", { x1: 0, x2: 26, y1: 4, y2: 4, "stroke-width": 2.5 });
  return s("svg.swatch", { viewBox: "0 0 26 8", "aria-hidden": "true" }, shape);
}

function inWords(title, series) {
  const parts = series.map(({ name, points, text }) => {
    const values = points.map((one) => one.value);
    const [first, last, low, high] = [values[0], values.at(-1), ...extent(values)].map(text);
    return `${label(name)} from ${first} to ${last}, between ${low} and ${high}`;
  });
  return `${title} over the steps. ${parts.join("; ")}. Arrow keys read single steps, Enter opens their episodes.`;
}
