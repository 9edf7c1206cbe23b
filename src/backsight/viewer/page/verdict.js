// Which of several runs has the lowest loss, and from which step on the others are apart from it: before any chart.
const CLOSE = 0.05; // curves that differ by less than this share of the larger are together
const TAIL = 10; // the end of a run is its last tenth

function endOf(values) {
  const last = [...values.slice(-Math.max(1, Math.ceil(values.length / TAIL)))].filter(Number.isFinite);
  return Number.isFinite(values[values.length - 1]) ? last.reduce((a, b) => a + b, 0) / last.length : Number.NaN;
}

// The first step from which on two smoothed curves stay apart; null if they are together at the end.
function partsAt(one, other) {
  const a = smoothed(one.values, 0.8),
    b = smoothed(other.values, 0.8),
    line = { at: (k) => other.steps[k], values: b };
  let found = null;
  for (let k = a.length - 1; k >= 0; k--) {
    const near_ = nearest(line, one.steps[k]);
    if (near_ < 0) break;
    const [v, w] = [a[k], b[near_]],
      apart = Number.isFinite(v) !== Number.isFinite(w) || Math.abs(v - w) > CLOSE * Math.max(Math.abs(v), Math.abs(w));
    if (!apart) break;
    found = one.steps[k];
  }
  return found;
}

function verdict(sets) {
  const losses = sets.flatMap((set) => set.answer.losses),
    name = losses.find((each) => sets.every((set) => each in set.answer.lines));
  if (!name) return null;
  const rows = sets.map((set) => {
    const { steps, values: packed_ } = set.answer.lines[name],
      values = unpacked(packed_);
    let low = -1;
    for (let k = 0; k < values.length; k++)
      if (Number.isFinite(values[k]) && (low < 0 || values[k] < values[low])) low = k;
    return { set, steps, values, end: endOf(values), low };
  });
  const ended = rows.filter((row) => Number.isFinite(row.end)).sort((a, b) => a.end - b.end),
    best = ended[0];
  const parted = (row) => {
    if (!best || row === best) return "";
    const bad = row.values.findIndex((v) => !Number.isFinite(v)),
      step = partsAt(best, row);
    if (!Number.isFinite(row.end) && bad >= 0) return `not finite from step ${count(row.steps[bad])} on`;
    return step === null ? "not permanently" : `from step ${count(step)} on`;
  };
  return h(
    "article",
    { class: "verdict" },
    h(
      "h2",
      {},
      best ? `Lowest ${name} at the end: ` : `No ${name} is finite at the end`,
      best ? [dotOf(best.set), best.set.name] : null,
      best && best.set.apart.length ? h("span", { class: "chosen" }, toldApart(best.set.apart)) : null,
    ),
    h(
      "div",
      { class: "table" },
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            [
              "",
              ...sets[0].apart.map(([each]) => each),
              `${name}, mean of the last tenth`,
              best ? "apart from the best" : "",
              "lowest",
            ].map((text) => h("th", {}, text)),
          ),
        ),
        h(
          "tbody",
          {},
          [...ended, ...rows.filter((row) => !ended.includes(row))].map((row) =>
            h(
              "tr",
              { class: row === best ? "best" : "" },
              h("td", {}, dotOf(row.set), row.set.name),
              row.set.apart.map(([, value]) => h("td", {}, value)),
              h("td", { class: Number.isFinite(row.end) ? "" : "bad" }, num(row.end, 4)),
              h("td", {}, parted(row)),
              h("td", {}, row.low < 0 ? "–" : `${num(row.values[row.low], 4)} at step ${count(row.steps[row.low])}`),
            ),
          ),
        ),
      ),
    ),
    h(
      "p",
      { class: "soft" },
      `Apart: the smoothed curves differ by more than ${percent(CLOSE)} and do not meet again.`,
    ),
  );
}
