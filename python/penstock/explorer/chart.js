// A chart with hover, brush and zoom, by mouse and by keyboard. The drawing is uPlot's.

/* global uPlot */

const COLOURS = 7;
const DASHES = [[], [8, 4], [2, 3], [9, 4, 2, 4], [14, 4]];
const HEIGHT = 320;
const STEP = 0.25; // the share of the visible range by which a key zooms or moves

/** An element with attributes and children. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** The value of a colour of the style sheet. */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** A number with three significant digits. */
export function short(value) {
  if (value == null) return "-";
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  return size >= 1e-3 || size === 0 ? String(Number(value.toPrecision(3))) : value.toExponential(1);
}

/** Sentences about curves that a reader cannot see: identical ones, and those without values. */
export function remarks(series) {
  const sentences = [];
  const empty = series.filter((each) => each.values.every((value) => value == null));
  if (empty.length) sentences.push(`No values: ${empty.map((each) => each.label).join(", ")}.`);
  const groups = new Map();
  for (const each of series) {
    if (empty.includes(each)) continue;
    const key = JSON.stringify(each.values);
    groups.set(key, [...(groups.get(key) ?? []), each.label]);
  }
  for (const labels of groups.values()) {
    if (labels.length > 1) sentences.push(`Identical curves: ${labels.join(", ")}.`);
  }
  return sentences.join(" ");
}

const tint = (each, index) => each.tint ?? `c${index % COLOURS}`;

/** An SVG line in the style of the curve. */
function swatch(each, index, dots) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const line = document.createElementNS(svg.namespaceURI, "line");
  for (const [name, value] of Object.entries({ width: 34, height: 12, "aria-hidden": "true" })) svg.setAttribute(name, value);
  const dash = dots ? "" : DASHES[index % DASHES.length].join(" ");
  const style = { x1: 0, y1: 6, x2: 34, y2: 6, "stroke-width": 3, "stroke-dasharray": dash || "none" };
  for (const [name, value] of Object.entries(style)) line.setAttribute(name, value);
  line.style.stroke = `var(--${tint(each, index)})`;
  svg.append(line);
  return svg;
}

export class Chart {
  /**
   * @param place   the element that the chart fills
   * @param name    the name of the chart for screen readers
   * @param options select(from, to) is called with a brushed interval, or without arguments if there is none;
   *                pick(index) is called for a click, or for Enter
   */
  constructor(place, name, options = {}) {
    this.options = options;
    this.hidden = new Set();
    this.plot = make("div", {
      class: "plot",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "chart",
      "aria-label": name,
      "aria-describedby": `${place.id}-help`,
      keydown: (event) => this.key(event),
    });
    this.where = make("p", { class: "soft" });
    this.live = make("p", { class: "unseen", role: "status" });
    this.curves = make("ul", { class: "curves", "aria-label": `Curves: ${name}` });
    this.remark = make("p", { class: "soft" });
    const button = (text, action) => make("button", { type: "button", click: action }, text);
    this.toSelection = button("Zoom to selection", () => this.zoomToSelection());
    const keys = make(
      "div",
      { class: "keys", role: "group", "aria-label": "Zoom" },
      button("Zoom in", () => this.zoom(1 - 2 * STEP)),
      button("Zoom out", () => this.zoom(1 / (1 - 2 * STEP))),
      this.toSelection,
      button("Show all", () => this.all()),
    );
    const key = (text) => make("kbd", {}, text);
    const help = make(
      "details",
      {},
      make("summary", {}, "Mouse and keys"),
      make(
        "p",
        { id: `${place.id}-help` },
        "Drag to select an interval; double-click to show all. With the chart in focus: ",
        key("←"), " ", key("→"), " move the cursor, with ", key("Shift"), " they select; ", key("Enter"),
        " zooms to the selection", options.pick ? ", or takes the cell at the cursor" : "", "; ", key("+"), " ", key("-"),
        " zoom; ", key("PageUp"), " ", key("PageDown"), " move the view; ", key("0"), " shows all; ", key("Escape"),
        " removes the selection.",
      ),
    );
    place.replaceChildren(this.plot, this.where, this.live, this.curves, this.remark, keys, help);
    new ResizeObserver(() => this.resize()).observe(this.plot);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  /** Show data: x, series [{label, values}], xLabel, yLabel, and optionally stepped or dots, yRange and marks. */
  show(data) {
    const before = this.data?.series.map((each) => each.label).join("\n");
    this.data = data;
    if (before !== data.series.map((each) => each.label).join("\n")) this.hidden.clear();
    this.at = null;
    this.brush = null;
    this.draw();
  }

  draw() {
    if (!this.data) return;
    const { x, series, xLabel, yLabel, stepped, dots, yRange, marks } = this.data;
    this.u?.destroy();
    const axis = { stroke: colour("ink"), grid: { stroke: colour("line") }, ticks: { stroke: colour("line") }, font: "13px system-ui", labelFont: "13px system-ui" };
    const paths = dots ? () => null : stepped ? uPlot.paths.stepped({ align: 1 }) : undefined;
    this.u = new uPlot(
      {
        width: this.width(),
        height: HEIGHT,
        legend: { show: false },
        cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 7 } },
        scales: { x: { time: false }, y: yRange ? { range: yRange } : {} },
        axes: [
          { ...axis, label: xLabel, labelSize: 22 },
          { ...axis, label: yLabel, labelSize: 22, size: 56, values: (_, splits) => splits.map(short) },
        ],
        series: [
          {},
          ...series.map((each, i) => ({
            label: each.label,
            stroke: colour(tint(each, i)),
            dash: DASHES[i % DASHES.length],
            width: 2,
            spanGaps: true,
            points: { show: Boolean(dots), size: 4, fill: colour(tint(each, i)), stroke: "transparent" },
            show: !this.hidden.has(i),
            paths,
          })),
        ],
        hooks: {
          setCursor: [(u) => this.moved(u)],
          setSelect: [(u) => this.selected(u)],
          setScale: [(u, name) => { if (name === "x") this.plot.dataset.range = JSON.stringify(this.range(u)); }],
          draw: marks ? [(u) => this.mark(u, marks)] : [],
          ready: [(u) => {
            u.over.addEventListener("dblclick", () => this.all());
            u.over.addEventListener("click", () => this.options.pick && !this.brush && this.at != null && this.options.pick(this.at));
          }],
        },
      },
      [x, ...series.map((each) => each.values)],
      this.plot,
    );
    this.list();
    this.remark.textContent = series.length && x.length ? remarks(series) : "There is no data for this choice.";
    this.toSelection.disabled = true;
    const every = this.data.every > 1 ? `, one of every ${this.data.every} samples` : "";
    this.where.textContent = `${x.length} points${every}`;
  }

  list() {
    this.values = this.data.series.map(() => make("span", { class: "value" }, ""));
    this.curves.replaceChildren(
      ...this.data.series.map((each, i) =>
        make(
          "li",
          {},
          make(
            "button",
            {
              type: "button",
              "aria-pressed": String(!this.hidden.has(i)),
              click: (event) => {
                const shown = this.hidden.has(i);
                this.hidden[shown ? "delete" : "add"](i);
                event.currentTarget.setAttribute("aria-pressed", String(shown));
                this.u.setSeries(i + 1, { show: shown });
              },
            },
            swatch(each, i, this.data.dots),
            each.label,
            this.values[i],
          ),
        ),
      ),
    );
  }

  width() {
    const style = getComputedStyle(this.plot);
    return Math.max(200, this.plot.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight));
  }

  resize() {
    if (this.u && this.plot.clientWidth && this.u.width !== this.width()) this.u.setSize({ width: this.width(), height: HEIGHT });
  }

  mark(u, marks) {
    u.ctx.save();
    u.ctx.strokeStyle = colour("soft");
    u.ctx.setLineDash([2, 4]);
    for (const value of marks) {
      const y = u.valToPos(value, "y", true);
      u.ctx.beginPath();
      u.ctx.moveTo(u.bbox.left, y);
      u.ctx.lineTo(u.bbox.left + u.bbox.width, y);
      u.ctx.stroke();
    }
    u.ctx.restore();
  }

  moved(u) {
    const index = u.cursor.idx;
    if (index == null) return;
    this.at = index;
    this.data.series.forEach((each, i) => { this.values[i].textContent = short(each.values[index]); });
    this.tell();
  }

  selected(u) {
    if (u.select.width < 2) {
      this.brush = null;
    } else {
      const [from, to] = [0, u.select.width].map((more) => u.posToVal(u.select.left + more, "x"));
      this.brush = [from, to];
    }
    this.toSelection.disabled = !this.brush;
    this.tell();
    this.options.select?.(...(this.brush ?? []));
  }

  tell() {
    const at = this.at == null ? "" : `${this.data.xLabel}: ${short(this.data.x[this.at])}`;
    const brush = this.brush ? `selected: ${short(this.brush[0])} to ${short(this.brush[1])}` : "";
    this.where.textContent = [at, brush].filter(Boolean).join("; ");
  }

  /** Say the values at the cursor to a screen reader, after a key. */
  say() {
    const values = this.data.series.filter((_, i) => !this.hidden.has(i)).map((each) => `${each.label}: ${short(each.values[this.at])}`);
    this.live.textContent = [this.where.textContent, ...values].join("; ");
  }

  key(event) {
    if (!this.u || !this.data.x.length || event.ctrlKey || event.altKey || event.metaKey) return;
    const actions = {
      ArrowLeft: () => this.step(-1, event.shiftKey),
      ArrowRight: () => this.step(1, event.shiftKey),
      Home: () => this.go(0),
      End: () => this.go(this.data.x.length - 1),
      Enter: () => (this.brush ? this.zoomToSelection() : this.at != null && this.options.pick?.(this.at)),
      "+": () => this.zoom(1 - 2 * STEP),
      "=": () => this.zoom(1 - 2 * STEP),
      "-": () => this.zoom(1 / (1 - 2 * STEP)),
      PageUp: () => this.pan(-2 * STEP),
      PageDown: () => this.pan(2 * STEP),
      0: () => this.all(),
      Escape: () => this.clear(),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
    if (this.at != null) this.say();
  }

  range(u = this.u) {
    const { min, max } = u.scales.x;
    return [min, max];
  }

  /** Move the cursor by about a hundredth of the visible points, at least one. */
  step(direction, selecting) {
    const [min, max] = this.range();
    const x = this.data.x;
    const visible = x.filter((value) => value >= min && value <= max).length;
    const from = this.at ?? Math.max(0, x.findIndex((value) => value >= min));
    const to = Math.min(x.length - 1, Math.max(0, from + direction * Math.max(1, Math.round(visible / 100))));
    if (selecting) this.anchor ??= x[from];
    else this.anchor = null;
    this.go(to);
    if (selecting) {
      const ends = [this.anchor, x[to]].sort((a, b) => a - b).map((value) => this.u.valToPos(value, "x"));
      this.u.setSelect({ left: ends[0], width: ends[1] - ends[0], top: 0, height: this.u.over.clientHeight });
    }
  }

  go(index) {
    const value = this.data.x[index];
    const [min, max] = this.range();
    if (value < min || value > max) this.u.setScale("x", { min: value - (max - min) / 2, max: value + (max - min) / 2 });
    this.u.setCursor({ left: this.u.valToPos(value, "x"), top: this.u.over.clientHeight / 2 });
    // The nearest point of the position can be a neighbour.
    this.at = index;
  }

  zoom(factor) {
    const [min, max] = this.range();
    const centre = this.at != null && this.data.x[this.at] >= min && this.data.x[this.at] <= max ? this.data.x[this.at] : (min + max) / 2;
    this.u.setScale("x", { min: centre - (centre - min) * factor, max: centre + (max - centre) * factor });
  }

  pan(share) {
    const [min, max] = this.range();
    this.u.setScale("x", { min: min + share * (max - min), max: max + share * (max - min) });
  }

  zoomToSelection() {
    if (!this.brush) return;
    const [min, max] = this.brush;
    this.clear();
    this.u.setScale("x", { min, max });
  }

  clear() {
    this.anchor = null;
    this.u.setSelect({ left: 0, width: 0, top: 0, height: 0 });
  }

  all() {
    this.clear();
    const x = this.data.x;
    this.u.setScale("x", { min: x[0], max: x[x.length - 1] });
  }
}

/** Fill a list with [value, text], and keep the chosen value if it is still there. */
export function options(select, values) {
  const before = select.value;
  select.replaceChildren(...values.map(([value, text]) => make("option", { value }, text)));
  if (values.some(([value]) => String(value) === before)) select.value = before;
}

/** Fetch JSON of this server; an error becomes an exception with the server's sentence. */
export async function ask(path, parameters = {}, options = {}) {
  const query = new URLSearchParams();
  for (const [name, values] of Object.entries(parameters)) {
    for (const value of [values].flat()) query.append(name, value);
  }
  let answer;
  try {
    answer = await fetch(query.size ? `${path}?${query}` : path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server has stopped. Start penstock again, and open its new address.");
  }
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.error ?? answer.statusText);
  return value;
}

/** A table with a head, rows of text, and a caption. Columns are numbers, except the first one and those in `texts`. */
export function table(caption, head, rows, texts = []) {
  const kind = (i) => (i && !texts.includes(i) ? "n" : null);
  const cell = (value, i) => make(i ? "td" : "th", { class: kind(i), scope: i ? null : "row" }, value);
  return make(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    make(
      "table",
      {},
      make("caption", {}, caption),
      make("thead", {}, make("tr", {}, ...head.map((text, i) => make("th", { scope: "col", class: kind(i) }, text)))),
      make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map(cell)))),
    ),
  );
}
