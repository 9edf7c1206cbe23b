// The numbers of one run or of several, a chart each, with one place of the pointer and one way of looking for all.
const INKS = 6;
const lookOf = (k) => ({ color: `line${1 + (k % INKS)}`, dash: [[], [6, 3], [2, 3]][Math.floor(k / INKS) % 3] });
// A run looks the same whichever others are shown, by its place among all; of two that would have one colour the later
// takes the next that is free.
function looksOf(shown, all) {
  const taken = new Set(),
    looks = new Map();
  all.forEach((name, place) => {
    if (!shown.includes(name)) return;
    let k = place;
    while (taken.size < INKS ? [...taken].some((each) => each % INKS === k % INKS) : taken.has(k)) k++;
    taken.add(k);
    looks.set(name, lookOf(k));
  });
  return looks;
}
const UNIT = { s: duration, B: bytes };
const METRIC_NAMES = {
  grad_norm: "gradient norm",
  update_ratio: "update / weight",
  step_time: "step time",
  memory: "resident memory",
  device_memory_peak: "peak memory of the device",
};

// Where a step lies on another axis: between two that are known, in proportion.
function between(steps, values) {
  return (step) => {
    if (!steps.length) return step;
    let low = 0,
      high = steps.length - 1;
    if (step <= steps[0]) return values[0];
    while (low < high) {
      const mid = (low + high + 1) >> 1;
      steps[mid] <= step ? (low = mid) : (high = mid - 1);
    }
    if (low === steps.length - 1) return values[low];
    return values[low] + ((step - steps[low]) / (steps[low + 1] - steps[low])) * (values[low + 1] - values[low]);
  };
}
function placing(answer, axis) {
  if (axis === "time") return between(answer.clock.steps, unpacked(answer.clock.seconds));
  if (axis === "epoch") {
    // An epoch that is told once for each of its steps grows evenly from one to the next.
    const { steps, values } = answer.epoch ?? { steps: [], values: null };
    const found = { steps: [], values: [] };
    (values ? [...unpacked(values)] : []).forEach((v, k, all) => {
      if (k && all[k - 1] === v) return;
      found.steps.push(steps[k]);
      found.values.push(v);
    });
    return between(found.steps, found.values);
  }
  return (step) => step;
}
const ORDER = ["grad_norm", "update_ratio", "lr", "step_time", "memory", "device_memory_peak"];
function metricNames(sets) {
  const losses = [...new Set(sets.flatMap((set) => set.answer.losses))];
  const all = [...new Set(sets.flatMap((set) => Object.keys(set.answer.lines)))];
  const rank = (name) => {
    if (losses.includes(name)) return losses.indexOf(name) - 1000;
    const known = ORDER.findIndex((each) => name === each || (each === "lr" && /(^| )lr( \(|$)/.test(name)));
    return known < 0 ? 3.5 : known >= 3 ? known + 1 : known; // what the program told comes before time and memory
  };
  return all.sort((a, b) => rank(a) - rank(b));
}

// The controls that all charts of a page share. `again` draws anew what is known, `go` asks anew.
function curveControls({ state, app, sets, again, find }) {
  const axes = [
    ["step", "step"],
    ["time", "wall time"],
    ...(sets().some((set) => set.answer.epoch) ? [["epoch", "epoch"]] : []),
  ];
  const note = (change) => {
    Object.assign(state, change);
    app.note(state);
    again();
  };
  const slider = h("input", {
    type: "range",
    min: "0",
    max: "99",
    value: state.smooth || "0",
    "aria-label": "smoothing",
    oninput: () => {
      amount.textContent = slider.value === "0" ? "off" : (slider.value / 100).toFixed(2);
      note({ smooth: slider.value === "0" ? undefined : slider.value });
    },
  });
  const amount = h("span", { class: "amount" }, state.smooth ? (state.smooth / 100).toFixed(2) : "off");
  const calm = h(
    "button",
    {
      class: "toggle",
      title: "the scale leaves out the outermost 1 % of the values on each side",
      "aria-pressed": String(Boolean(state.calm)),
      onclick: () => {
        note({ calm: state.calm ? undefined : "1" });
        calm.setAttribute("aria-pressed", String(Boolean(state.calm)));
      },
    },
    "ignore outliers",
  );
  return [
    select("over", axes, state.axis || "step", (axis) =>
      app.go({
        ...state,
        axis: axis === "step" ? undefined : axis,
        first: undefined,
        last: undefined,
        from: undefined,
        to: undefined,
      }),
    ),
    h("label", { class: "field" }, h("span", {}, "smoothing"), slider, amount),
    select(
      "scale",
      [
        ["", "automatic"],
        ["0", "linear"],
        ["1", "log"],
      ],
      state.log || "",
      (log) => note({ log: log || undefined }),
    ),
    calm,
    find ? searchBox(find, state.find, (text) => note({ find: text })) : null,
    ["first", "last", "from", "to"].some((key) => state[key] !== undefined)
      ? h("button", { onclick: () => app.go(unzoomed(state)) }, "reset zoom")
      : h("span", { class: "hint" }, "drag to zoom"),
  ];
}
const unzoomed = (state) => ({ ...state, first: undefined, last: undefined, from: undefined, to: undefined });

// How all charts of a page are drawn, by what was chosen there.
const drawnAs = (state, app, axis) => ({
  smooth: Number(state.smooth || 0) / 100,
  calm: Boolean(state.calm),
  axis: AXES[axis],
  zoom: (from, to) =>
    app.go(
      from === null ? unzoomed(state) : { ...state, ...(axis === "step" ? { first: from, last: to } : { from, to }) },
    ),
});

// What part of an axis is shown: what was zoomed into, or all that there is.
function spanOf(state, sets, axis) {
  let low = Infinity,
    high = -Infinity;
  for (const { answer, place } of sets)
    for (const { steps } of Object.values(answer.lines)) {
      if (!steps.length) continue;
      low = Math.min(low, place(steps[0]));
      high = Math.max(high, place(steps[steps.length - 1]));
    }
  const [from, to] = axis === "step" ? [state.first, state.last] : [state.from, state.to];
  if (from !== undefined) low = Number(from);
  if (to !== undefined) high = Number(to);
  return low <= high ? [low, high > low ? high : low + 1] : [0, 1];
}

// A few charts grow until the page is full.
const CARD = 426, // the least width of a chart and the gap beside it: see .cards in viewer.css
  AROUND = 58; // its title, and the gap below
function heightOf(charts) {
  const rows = Math.ceil(charts / Math.max(1, Math.floor((innerWidth - 14) / CARD)));
  return innerWidth <= 720 ? 190 : clamp((innerHeight - 130) / Math.max(rows, 1) - AROUND, 190, 330);
}

// sets: [{ name, answer, color, dash, off }], a run each.
function curveCharts(sets, { state, app, cursor, wanted = () => true }) {
  const axis = state.axis in AXES ? state.axis : "step";
  const placed = sets.map((set) => ({ ...set, place: placing(set.answer, axis) }));
  const shown = placed.filter((set) => !set.off),
    [first, last] = spanOf(state, shown, axis);
  const names_ = metricNames(sets).filter((each) => wanted(each) || wanted(METRIC_NAMES[each] || each)),
    isShared = (name) => sets.length === 1 && sets[0].answer.losses.includes(name), // the losses of a run have one chart
    losses = names_.filter(isShared),
    groups = [losses, ...names_.filter((each) => !isShared(each)).map((each) => [each])].filter((each) => each.length),
    charts = [],
    height = heightOf(groups.length);
  for (const group of groups) {
    const [name] = group;
    const lines = shown.flatMap((set) =>
      group
        .filter((each) => each in set.answer.lines)
        .map((each, k) => {
          const { steps, values, last: now } = set.answer.lines[each];
          return {
            told: set.apart?.length ? toldApart(set.apart) : undefined,
            ...set,
            ...(k && lookOf(k)),
            name: sets.length > 1 ? set.name : each,
            values: unpacked(values),
            at: (k) => set.place(steps[Math.min(k, steps.length - 1)]),
            steps,
            gap: (k) => steps[k] - steps[k - 1],
            now,
          };
        }),
    );
    if (!lines.length) continue;
    const unit = placed.find((set) => name in set.answer.lines).answer.lines[name].unit,
      show = UNIT[unit] || num,
      newest = (line) => nowOf(line, show, AXES[axis]);
    const board = chart({
      height,
      first,
      last,
      lines,
      nonfinite: lines.map(spoilt),
      log: state.log ? state.log === "1" : null,
      show,
      label: `${group.join(", ")} over the ${AXES[axis].name}s`,
      ...drawnAs(state, app, axis),
      cursor,
    });
    const title = group[1] ? "losses" : METRIC_NAMES[name] || name,
      now = group[1] ? names(lines, newest) : lines.length === 1 ? newest(lines[0]) : null;
    charts.push(panel(title, board, now, everyOf(lines.map((l) => l.steps))));
  }
  return charts;
}

// At which distance all of several lines were measured, if not in each step; what has many points may stand for more.
const MANY = 300;
function everyOf(several) {
  const gaps = new Set(several.flatMap((steps) => steps.slice(1).map((step, k) => step - steps[k]))),
    [gap] = gaps;
  return gaps.size === 1 && gap > 1 && several.every((steps) => steps.length < MANY) ? `every ${gap} steps` : null;
}

// The newest number of a line; of one that ended in NaN, since when, and where it was last finite if steps lie between.
function nowOf({ values, at, gap, now }, show, axis) {
  let from = values.length;
  while (from > 0 && !Number.isFinite(values[from - 1])) from--;
  if (from === values.length) return h("span", { class: "now" }, show(asNumber(now)));
  const since = axis.told(at(from)),
    lastFinite = from && gap(from) > 1 ? `, finite ${axis === AXES.time ? "" : "at "}${axis.told(at(from - 1))}` : "";
  return h(
    "span",
    { class: "now bad" },
    `${show(values[values.length - 1])} ${since.startsWith("after") ? since : `from ${since} on`}${lastFinite}`,
  );
}

// Several runs by name, each with its colour, to be shown or not.
function runLegend(sets, toggle, remove) {
  return h(
    "div",
    { class: "kinds", role: "group", "aria-label": "runs" },
    sets.map((set) =>
      h(
        "span",
        { class: "chip" },
        h(
          "button",
          { "aria-pressed": String(!set.off), title: set.off ? "show" : "hide", onclick: () => toggle(set) },
          dotOf(set),
          set.name,
          toldApart(set.apart || []) ? h("span", { class: "chosen" }, toldApart(set.apart)) : null,
        ),
        remove && sets.length > 1
          ? h("button", { class: "drop", "aria-label": `remove ${set.name}`, onclick: () => remove(set) }, "×")
          : null,
      ),
    ),
  );
}
