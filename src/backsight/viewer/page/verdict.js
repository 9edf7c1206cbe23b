// Which of several runs has the lowest loss, and from which step on the others are apart from it: before any chart.
const CLOSE = 0.05; // curves that differ by less than this share of the larger are together
const LATE = 0.05; // of the steps of both
const TAIL = 10; // the end of a run is its last tenth

function endOf(values) {
  const last = [...values.slice(-Math.max(1, Math.ceil(values.length / TAIL)))].filter(Number.isFinite);
  return Number.isFinite(values[values.length - 1]) ? last.reduce((a, b) => a + b, 0) / last.length : Number.NaN;
}

const apartBy = (v, w) => Math.abs(v - w) / (Math.max(Math.abs(v), Math.abs(w)) || 1);

// The values of both at the same steps, of those that both have reached. Where one has more points, as the shorter of two
// long runs has, they are the mean of those that a point of the other stands for.
function together(one, other) {
  const from = Math.max(one.steps[0], other.steps[0]),
    to = Math.min(one.steps[one.steps.length - 1], other.steps[other.steps.length - 1]),
    within = ({ steps }) => steps.map((_, k) => k).filter((k) => steps[k] >= from && steps[k] <= to),
    mine = within(one),
    yours = within(other),
    swapped = yours.length < mine.length,
    [few, many] = swapped ? [yours, mine] : [mine, yours],
    [coarse, fine] = swapped ? [other, one] : [one, other],
    found = { steps: [], a: [], b: [] };
  let at = 0;
  few.forEach((k, n) => {
    const end = n + 1 < few.length ? coarse.steps[few[n + 1]] : Infinity;
    let sum = 0,
      count_ = 0;
    for (; at < many.length && fine.steps[many[at]] < end; at++) {
      sum += fine.values[many[at]];
      count_++;
    }
    if (!count_) return;
    found.steps.push(coarse.steps[k]);
    found[swapped ? "b" : "a"].push(coarse.values[k]);
    found[swapped ? "a" : "b"].push(sum / count_);
  });
  return found;
}

// The first step from which on two smoothed curves stay apart; null if they are together at the end of the shorter one, or
// apart so shortly before it that nobody can say whether they stay so.
function partsAt({ steps, a: mine, b: yours }) {
  const a = smoothed(mine, 0.8),
    b = smoothed(yours, 0.8);
  let since = a.length;
  for (let k = a.length - 1; k >= 0; k--) {
    const [v, w] = [a[k], b[k]],
      apart = Number.isFinite(v) !== Number.isFinite(w) || apartBy(v, w) > CLOSE;
    if (!apart) break;
    since = k;
  }
  return a.length - since > LATE * a.length ? steps[since] : null;
}

// Whether two runs are of different programs: they share no parameter, or neither the script nor all parameters.
function areForeign({ parameters: mine, script }, { parameters: yours, script: other }) {
  const shared = yours.filter((name) => mine.includes(name)).length;
  return (
    mine.length * yours.length > 0 && (!shared || (script !== other && shared < Math.max(mine.length, yours.length)))
  );
}
// How the loss that all of them have ended in each run, and in which it is the lowest, which nobody can say of different
// programs; null if they have none.
function endings(sets) {
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
  const foreign = sets.some((set) => areForeign(sets[0], set)),
    ended = rows.filter((row) => Number.isFinite(row.end)).sort((a, b) => (foreign ? 0 : a.end - b.end));
  const unended = rows.filter((row) => !ended.includes(row));
  return {
    name,
    rows,
    ended,
    best: foreign ? undefined : ended[0],
    foreign,
    unended,
    order: [...ended, ...unended].map((row) => row.set),
  };
}

function verdict(sets) {
  const found = endings(sets);
  if (!found)
    return sets.some((set) => areForeign(sets[0], set))
      ? h("p", { class: "soft" }, "These runs are of different programs: they have no loss in common.")
      : null;
  const { name, ended, best, foreign, unended } = found,
    isTied = best && ended.length > 1 && ended.every(({ end }) => end === best.end);
  const parted = (row) => {
    if (!best || row === best) return "";
    const bad = row.values.findIndex((v) => !Number.isFinite(v)),
      both = together(best, row),
      step = partsAt(both);
    if (!Number.isFinite(row.end) && bad >= 0) return `not finite from step ${count(row.steps[bad])} on`;
    if (!both.steps.length) return "no step in common";
    if (both.a.length === row.values.length && both.a.every((v, k) => v === both.b[k])) return "the same";
    const share = apartBy(best.end, row.end);
    if (share <= CLOSE) return `within ${percent(CLOSE)} at the end`;
    if (step === null)
      return best.steps.at(-1) === row.steps.at(-1)
        ? `${percent(share)} apart at the end`
        : `within ${percent(CLOSE)} at step ${count(Math.min(best.steps.at(-1), row.steps.at(-1)))}, the last of both`;
    let low = both.steps.indexOf(step);
    while (both.b[low] < both.a[low]) low++;
    const until = both.steps[low - 1];
    return `from step ${count(step)} on${until >= step ? `, lower until step ${count(until)}` : ""}`;
  };
  return h(
    "article",
    { class: "verdict" },
    h(
      "h2",
      {},
      isTied
        ? `${name} ends the same`
        : best
          ? `Lowest ${name} at the end: `
          : foreign
            ? "Different programs"
            : `No ${name} is finite at the end`,
      best && !isTied
        ? [
            h("span", { class: "best" }, dotOf(best.set), best.set.name),
            best.set.apart.length ? h("span", { class: "chosen" }, toldApart(best.set.apart)) : null,
          ]
        : null,
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
              ...sets[0].apart.map(([each]) => [each]),
              `${name}, mean of the last tenth`,
              best ? "differs from the best" : null,
              "lowest",
            ].map((text) => (text === null ? null : h("th", { class: Array.isArray(text) ? "told" : "" }, text))),
          ),
        ),
        h(
          "tbody",
          {},
          [...ended, ...unended].map((row) =>
            h(
              "tr",
              { class: row === best ? "best" : "" },
              h("td", {}, dotOf(row.set), row.set.name),
              row.set.apart.map(([, value]) => h("td", { class: "told" }, value)),
              h("td", { class: Number.isFinite(row.end) ? "" : "bad" }, num(row.end, 4)),
              best ? h("td", {}, parted(row)) : null,
              h("td", {}, row.low < 0 ? "–" : `${num(row.values[row.low], 4)} at step ${count(row.steps[row.low])}`),
            ),
          ),
        ),
      ),
    ),
    h(
      "p",
      { class: "soft" },
      foreign
        ? "These runs do not have one script or the same parameters: their losses measure different things, and are not ranked."
        : best
          ? `Differs: the smoothed curves are more than ${percent(CLOSE)} apart from then on. Best: the lowest mean of the last tenth.`
          : null,
    ),
  );
}

// How the loss ended over each number that was chosen for the runs: a point is a run.
const FEWEST_CHOICES = 3, // two are told by the table
  WIDE = 10; // the largest is so many times the smallest: a logarithmic scale
// What was given on a command line is text.
const asChosen = (value) =>
  typeof value === "number" || (typeof value === "string" && value.trim()) ? Number(value) : Number.NaN;
function endingsByChoice(sets) {
  const { name, ended, unended, foreign } = endings(sets) || { ended: [] };
  if (foreign) return [];
  const numbers = (sets[0].apart || []).flatMap(([choice]) => {
    const points = ended
      .map((row) => ({ ...row, chosen: asChosen(new Map(row.set.chosen).get(choice)) }))
      .filter(({ chosen }) => Number.isFinite(chosen));
    return new Set(points.map(({ chosen }) => chosen)).size < FEWEST_CHOICES ? [] : [{ choice, points }];
  });
  const missing = unended?.length ? `; not finite: ${listed(unended.map((row) => row.set.name))}` : "";
  const isWide = (values) => Math.min(...values) > 0 && Math.max(...values) > WIDE * Math.min(...values);
  return numbers.map(({ choice, points }) => {
    const log = isWide(points.map(({ chosen }) => chosen)),
      there = (v) => (log ? Math.log10(v) : v),
      back = (v) => (log ? 10 ** v : v),
      places = points.map(({ chosen }) => there(chosen)),
      low = Math.min(...places),
      high = Math.max(...places),
      margin = (high - low) / 20;
    const axis = {
      name: choice,
      ticks: (from, to, most) =>
        log ? logTicks(10 ** from, 10 ** to, Math.max(most, 2)).map(Math.log10) : ticks(from, to, most),
      text: (v) => num(back(v)),
      told: (v) => `${choice} ${num(back(v))}`,
      rounded: (v) => places.reduce((a, b) => (Math.abs(b - v) < Math.abs(a - v) ? b : a)),
    };
    const lines = points.map(({ set, end }, k) => ({
      name: set.name,
      color: set.color,
      dot: 7,
      values: [end],
      at: () => places[k],
    }));
    const board = chart({
      height: 170,
      first: low - margin,
      last: high + margin,
      lines,
      log: isWide(points.map(({ end }) => end)),
      label: `${name} at the end over ${choice}, a point for each run`,
      cursor: newCursor(null),
      axis,
    });
    return panel(`${name} at the end, by ${choice}`, board, null, `a point is a run${missing}`);
  });
}
