// The page of `penstock open`: four views of one output directory.

import { Chart, ask, make, options, short, table } from "./chart.js";

const $ = (id) => document.getElementById(id);
const PERCENTILES = [10, 25, 50, 75, 90, 95, 99];
const FIRST_PERCENTILES = [50, 90];
const MANY = 60; // relays in the list
const VIEWS = {
  downloads: { title: "Downloads", missing: "No download finished after the warm-up." },
  relays: { title: "Relays", missing: "This output has no samples of relays." },
  circuits: { title: "Circuits", missing: "This output has no traced circuits: add [trace] workloads to the scenario." },
  cells: { title: "Cells", missing: "This output has no tracked cells: add trace.cells to the scenario." },
};
const charts = {};
const newest = {};
const lists = {}; // the circuits of the chosen run and variant, by view
let choices;
let chosenRelays;
let tracked = [];

/**
 * Run an update of a view. A later update of the same view replaces this one. An error is shown, and replaces the
 * earlier chart and table unless `keep`.
 */
async function update(view, work, keep = false) {
  const mine = (newest[view] = (newest[view] ?? 0) + 1);
  const current = () => mine === newest[view];
  try {
    await work(current);
    if (current()) $("problem").hidden = true;
  } catch (error) {
    if (!current()) return;
    if (!keep) $(`${view}-found`).hidden = true;
    $("problem").textContent = error.message;
    $("problem").hidden = false;
  }
}

const reveal = (view) => { $(`${view}-found`).hidden = false; };

function checks(place, values, chosen, changed) {
  place.replaceChildren(
    ...values.map(([value, text]) => make("label", {}, make("input", { type: "checkbox", value, checked: chosen.has(value), change: changed }), text)),
  );
}

const checked = (place) => [...place.querySelectorAll("input:checked")].map((input) => input.value);
const percent = (share) => `${(100 * share).toFixed(1)} %`;
const run = (select) => { const { network, seed } = choices.runs[Number(select.value)]; return { network, seed }; };

function downloads() {
  return update("downloads", async (current) => {
    const percentiles = checked($("percentiles"));
    const data = await ask("downloads", { workload: $("workload").value, metric: $("metric").value, variant: checked($("variants")), percentile: percentiles });
    if (!current()) return;
    downloads.data = data;
    reveal("downloads");
    charts.downloads.show({ ...data, xLabel: `${data.title} [s]`, yLabel: "share of downloads", stepped: true, yRange: [0, 1.02], marks: percentiles.map((text) => Number(text) / 100) });
    downloadsTable();
  });
}

function downloadsTable(from, to) {
  const { rows, series, x, title } = downloads.data;
  const names = checked($("percentiles"));
  const within = (values) => {
    const until = (limit) => { const i = x.findLastIndex((each) => each <= limit); return i < 0 ? 0 : values[i]; };
    return values.every((value) => value == null) ? "-" : percent(until(to) - until(from));
  };
  const brushed = from != null;
  $("downloads-table").replaceChildren(
    table(
      brushed ? `Percentiles of the ${title} [s], and the share of downloads from ${short(from)} s to ${short(to)} s.` : `Percentiles of the ${title} [s] over all complete downloads after the warm-up. Select an interval in the chart to count its downloads.`,
      ["variant", "downloads", ...names.map((name) => `${name} %`), ...(brushed ? ["in the interval"] : [])],
      rows.map((row, i) => [row.label, String(row.downloads), ...row.percentiles.map(short), ...(brushed ? [within(series[i].values)] : [])]),
    ),
  );
}

function relayList() {
  const text = $("filter").value.trim().toLowerCase();
  const found = choices.relays.filter((relay) => relay.name.toLowerCase().includes(text));
  // Chosen relays stay in the list, so that they can be removed.
  const shown = choices.relays.filter((relay) => chosenRelays.has(relay.name) || found.slice(0, MANY).includes(relay));
  checks($("relay-names"), shown.map((relay) => [relay.name, relay.name]), chosenRelays, (event) => {
    chosenRelays[event.target.checked ? "add" : "delete"](event.target.value);
    relays();
  });
  const rest = found.length - Math.min(found.length, MANY);
  $("more").textContent = found.length ? (rest ? `${rest} more relays: type a part of the name to find them.` : "") : "No relay has this name.";
}

function relays() {
  return update("relays", async (current) => {
    const data = await ask("relays", { ...run($("relays-run")), measure: $("measure").value, variant: checked($("variants")), relay: [...chosenRelays] });
    if (!current()) return;
    reveal("relays");
    charts.relays.show({ ...data, xLabel: "time [s]", yLabel: data.y });
    const limits = (bound) => Object.entries(bound).map(([name, share]) => `${name} ${percent(share)}`).join(", ") || "-";
    $("relays-table").replaceChildren(
      table("Mean and largest value over the run. The last column is the share of samples in which each limit bound the relay.", ["relay", "mean", "largest", "bound by"], data.rows.map((row) => [row.label, short(row.mean), short(row.most), limits(row.bound)]), [3]),
    );
  });
}

const circuitName = (each) => `${each.circuit}: ${each.workload}`;

/** The circuits of the chosen run and variant, which also fill `select`. A replaced update changes nothing. */
async function circuitList(view, select, current) {
  const chosen = { ...run($(`${view}-run`)), variant: $(`${view}-variant`).value };
  const key = JSON.stringify(chosen);
  if (lists[view]?.key !== key) {
    const found = await ask("circuits", chosen);
    if (!current()) return [];
    const usable = view === "cells" ? found.filter((each) => each.cells) : found;
    options(select, usable.map((each) => [each.circuit, circuitName(each)]));
    lists[view] = { key, usable };
  }
  return lists[view].usable;
}

function circuits() {
  return update("circuits", async (current) => {
    const list = await circuitList("circuits", $("circuit"), current);
    if (!current()) return;
    if (!list.length) throw new Error("This run has no traced circuits.");
    const mine = list.find((each) => String(each.circuit) === $("circuit").value);
    const [exit, middle, guard, client] = mine.path;
    $("way").textContent = mine.path.length ? `Path of the cells: ${exit} (exit), ${middle} (middle), ${guard} (guard), ${client} (client).` : "";
    const data = await ask("circuit", { ...run($("circuits-run")), variant: $("circuits-variant").value, circuit: mine.circuit, quantity: $("quantity").value });
    if (!current()) return;
    reveal("circuits");
    charts.circuits.show({ ...data, xLabel: "time [s]", yLabel: data.y });
    $("circuits-table").replaceChildren(table(`Mean and largest ${data.y} over the run.`, ["hop", "mean", "largest"], data.rows.map((row) => [row.label, short(row.mean), short(row.most)])));
  });
}

function cells({ number = null } = {}) {
  return update("cells", async (current) => {
    const list = await circuitList("cells", $("cells-circuit"), current);
    if (!current()) return;
    if (!list.length) throw new Error("This run has no circuit with tracked cells.");
    const which = number == null ? {} : { cell: number };
    const data = await ask("cell", { ...run($("cells-run")), variant: $("cells-variant").value, circuit: $("cells-circuit").value, ...which });
    if (!current()) return;
    reveal("cells");
    tracked = data.cells;
    $("cell").value = data.cell;
    stations(data);
    const key = JSON.stringify([run($("cells-run")), $("cells-variant").value, $("cells-circuit").value]);
    if (cells.key !== key) {
      const series = data.series.map((each, i) => ({ ...each, tint: `s${i}` }));
      charts.cells.show({ ...data, series, xLabel: "arrival at the exit [s]", yLabel: "wait on the whole circuit [s]", dots: true });
      cells.key = key;
    }
  }, number != null);
}

function stations(data) {
  const first = Math.min(...data.stations.map((stay) => stay.from));
  const last = Math.max(...data.stations.map((stay) => stay.to));
  const names = Object.fromEntries(choices.stations.map((each, i) => [each.name, { title: each.title, colour: `var(--s${i})` }]));
  const longest = data.stations.reduce((a, b) => (b.to - b.from > a.to - a.from ? b : a));
  $("cell-title").textContent = `Cell ${data.cell} took ${short(1000 * (last - first))} ms; its longest wait was ${short(1000 * (longest.to - longest.from))} ms (${names[longest.station].title} of the ${longest.hop})`;
  $("stations").replaceChildren(
    ...data.hops.map((hop) => {
      const bar = make("div");
      for (const stay of data.stations.filter((each) => each.hop === hop)) {
        const piece = make("i", { title: `${names[stay.station].title}: ${short(1000 * (stay.to - stay.from))} ms` });
        piece.style.left = `${(100 * (stay.from - first)) / (last - first)}%`;
        piece.style.width = `${(100 * (stay.to - stay.from)) / (last - first)}%`;
        piece.style.background = names[stay.station].colour;
        bar.append(piece);
      }
      return make("li", {}, hop, bar);
    }),
  );
  $("cell-table").replaceChildren(
    table(
      "Times since the cell's bytes arrived at the exit [ms].",
      ["hop", "station", "from", "to", "wait"],
      data.stations.map((stay) => [stay.hop, names[stay.station].title, ...[stay.from - first, stay.to - first, stay.to - stay.from].map((time) => short(1000 * time))]),
      [1],
    ),
  );
}

function neighbour(step) {
  const place = tracked.indexOf(Number($("cell").value));
  const next = tracked[Math.min(tracked.length - 1, Math.max(0, place + step))];
  if (next != null) cells({ number: next });
}

const updates = { downloads, relays, circuits, cells: () => cells() };

function present(view) {
  return { downloads: choices.workloads.length, relays: choices.relays.length, circuits: choices.traced, cells: choices.cells }[view];
}

function route() {
  const view = location.hash.slice(1) in VIEWS ? location.hash.slice(1) : "downloads";
  for (const name of Object.keys(VIEWS)) $(name).hidden = name !== view || !present(name);
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  $("shown").hidden = !["downloads", "relays"].includes(view);
  $("problem").hidden = Boolean(present(view));
  if (present(view)) updates[view]();
  else $("problem").textContent = VIEWS[view].missing;
}

async function start() {
  choices = await ask("choices");
  document.title = `${choices.title} - Penstock`;
  $("scenario").textContent = choices.scenario;
  $("title").textContent = choices.title;
  $("about").textContent = `${choices.directory}, penstock ${choices.version}${choices.finished ? "" : ", unfinished"}`;
  $("views").replaceChildren(...Object.entries(VIEWS).map(([name, { title }]) => make("li", {}, make("a", { href: `#${name}` }, title))));
  const variants = choices.variants.map(({ name, label }) => [name, label]);
  checks($("variants"), variants, new Set(variants.slice(0, 6).map(([name]) => name)), () => (location.hash === "#relays" ? relays() : downloads()));
  options($("workload"), choices.workloads.map((name) => [name, name]));
  options($("metric"), choices.metrics.map(({ name, title }) => [name, title]));
  options($("measure"), choices.measures.map(({ name, title }) => [name, title]));
  options($("quantity"), choices.quantities.map(({ name, title }) => [name, title]));
  for (const view of ["relays", "circuits", "cells"]) options($(`${view}-run`), choices.runs.map(({ label }, i) => [i, label]));
  for (const view of ["circuits", "cells"]) options($(`${view}-variant`), variants);
  checks($("percentiles"), PERCENTILES.map((value) => [value, `${value} %`]), new Set(FIRST_PERCENTILES), downloads);
  chosenRelays = new Set(choices.relays.slice(0, 1).map(({ name }) => name));
  relayList();
  const stationsOf = choices.stations.map(({ title }, i) => { const piece = make("i"); piece.style.background = `var(--s${i})`; return make("li", {}, piece, title); });
  $("swatches").replaceChildren(...stationsOf);

  charts.downloads = new Chart($("downloads-chart"), "distribution of times", { select: downloadsTable });
  charts.relays = new Chart($("relays-chart"), "relays over time");
  charts.circuits = new Chart($("circuits-chart"), "circuit over time");
  charts.cells = new Chart($("cells-chart"), "waits of cells", { pick: (index) => cells({ number: tracked[index] }) });

  for (const id of ["workload", "metric"]) $(id).addEventListener("change", downloads);
  for (const id of ["measure", "relays-run"]) $(id).addEventListener("change", relays);
  $("filter").addEventListener("input", relayList);
  for (const id of ["circuits-variant", "circuits-run", "circuit", "quantity"]) $(id).addEventListener("change", circuits);
  for (const id of ["cells-variant", "cells-run", "cells-circuit"]) $(id).addEventListener("change", () => cells());
  $("cell").addEventListener("change", () => $("cell").value && cells({ number: $("cell").value }));
  $("previous").addEventListener("click", () => neighbour(-1));
  $("next").addEventListener("click", () => neighbour(1));
  addEventListener("hashchange", route);
  route();
}

start().catch((error) => {
  $("about").textContent = "";
  $("problem").textContent = error.message;
  $("problem").hidden = false;
});
