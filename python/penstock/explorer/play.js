// The page of `penstock play`: sliders, and the results at their positions. A saved page has all results in itself.

import { Chart, ask, make, options, short, table } from "./chart.js";

const $ = (id) => document.getElementById(id);
const POLL_MS = 150;
const saved = $("saved") ? JSON.parse($("saved").textContent) : null;
let choices;
let first; // the result at the scenario's own values; undefined until the reader has seen it
let now; // the newest result; undefined after an error
let running;
let charts;

const positions = () => [...document.querySelectorAll("#sliders input")].map((input) => Number(input.value));

/** The same curves up to the largest time of all results so far, so that a reader sees how curves move. */
const end = {};
function extended(data, place) {
  const seen = saved ? Object.values(saved.runs) : [now];
  for (const { times } of seen) end[place] = Math.max(end[place] ?? 0, times[$("workload").value]?.[$("metric").value]?.x.at(-1) ?? 0);
  if (data.x.at(-1) >= end[place]) return data;
  return { ...data, x: [...data.x, end[place]], series: data.series.map((each) => ({ ...each, values: [...each.values, each.values.at(-1)] })) };
}

/** The results at positions of the sliders. */
async function results(at, signal) {
  if (saved) return saved.runs[at.join(",")];
  const body = JSON.stringify({ positions: at });
  return ask("run", {}, { method: "POST", body, signal, headers: { "Content-Type": "application/json" } });
}

async function move() {
  running?.abort();
  const mine = (running = new AbortController());
  const at = positions();
  const began = performance.now();
  $("problem").hidden = true;
  // A saved page answers at once.
  if (!saved) {
    $("state").textContent = "Running…";
    $("progress").hidden = false;
    follow(mine);
  }
  try {
    const found = await results(at, mine.signal);
    if (mine.signal.aborted) return;
    now = found;
    if (at.every((place) => place === 0)) first = found;
    $("state").textContent = saved ? "" : `Finished in ${short((performance.now() - began) / 1000)} s.`;
    show();
  } catch (error) {
    if (mine.signal.aborted) return;
    now = undefined;
    show();
    $("state").textContent = "";
    $("problem").textContent = error.message;
    $("problem").hidden = false;
  } finally {
    if (mine === running) $("progress").hidden = true;
    mine.abort();
  }
}

async function follow(mine) {
  while (!mine.signal.aborted) {
    const { share } = await ask("progress").catch(() => ({ share: 0 }));
    $("progress").value = share;
    await new Promise((next) => setTimeout(next, POLL_MS));
  }
}

/** Show the newest result. Nothing of an earlier position stays. */
function show() {
  const names = Object.keys(now?.times ?? {});
  // An empty list would forget the reader's choice.
  if (names.length) options($("workload"), names.map((name) => [name, name]));
  const data = now?.times[$("workload").value]?.[$("metric").value];
  $("command").textContent = now?.command ?? "";
  $("queue").hidden = !now?.queue;
  if (now?.queue) {
    $("queue-title").textContent = `The exit's circuit queue of the workload ${now.queue.workload}`;
    charts.queue.show({ ...now.queue, xLabel: "time [s]", yLabel: "queue [cells]" });
  }
  $("times-chart").hidden = !data;
  if (!data) $("times-table").replaceChildren();
  if (!now) return;
  $("problem").hidden = Boolean(data);
  if (!data) {
    $("problem").textContent = "No download finished after the warm-up at this position.";
    return;
  }
  const before = first?.times[$("workload").value]?.[$("metric").value];
  charts.times.show({ ...extended(data, `${$("workload").value} ${$("metric").value}`), xLabel: `${data.title} [s]`, yLabel: "share of downloads", stepped: true, yRange: [0, 1.02], marks: [0.5, 0.9] });
  $("times-table").replaceChildren(
    table(
      `Percentiles of the ${data.title} [s] in one run with seed ${choices.seed}. The last two columns have the scenario's own values.`,
      ["variant", "downloads", "50 %", "90 %", "scenario 50 %", "scenario 90 %"],
      data.rows.map((row, i) => [row.label, String(row.downloads), ...row.percentiles.map(short), ...(before?.rows[i]?.percentiles ?? [null, null]).map(short)]),
    ),
  );
}

function slider({ key, values }, i) {
  const value = make("output", { for: `slider-${i}` }, values[0]);
  const name = make("span", {}, `${key} = `, value);
  const input = make("input", { type: "range", id: `slider-${i}`, min: 0, max: values.length - 1, step: 1, value: 0, "aria-label": key, "aria-valuetext": values[0] });
  input.addEventListener("input", () => {
    value.textContent = values[input.value];
    input.setAttribute("aria-valuetext", values[input.value]);
    move();
  });
  return make("label", {}, name, input);
}

async function start() {
  choices = saved ?? (await ask("choices"));
  document.title = `${choices.title} - Penstock`;
  $("scenario").textContent = choices.scenario;
  $("title").textContent = choices.title;
  $("about").textContent = saved
    ? "Move a slider to see another run. All runs were made before; the page needs no server."
    : "Move a slider to run the scenario again.";
  $("sliders").replaceChildren(...choices.sliders.map(slider));
  options($("metric"), choices.metrics.map(({ name, title }) => [name, title]));
  charts = { times: new Chart($("times-chart"), "distribution of times"), queue: new Chart($("queue-chart"), "queue over time") };
  for (const id of ["workload", "metric"]) $(id).addEventListener("change", show);
  await move();
}

start().catch((error) => {
  $("problem").textContent = error.message;
  $("problem").hidden = false;
});
