// What a box of the graph holds at one column of the values of tensors. `at` gives the place of a tensor's value.

// The largest magnitude in each module that a box stands for, and of several the smallest and the largest: the smallest
// gives the colour, as it says where a gradient vanishes. NaN where nothing was recorded.
function extremes(names_, at, { values, bad, moduleOf, stat, show }) {
  const largest = new Map();
  let wrong = 0,
    name = names_[0];
  for (const each of names_) {
    const value = values[at(each)],
      module = moduleOf.get(each);
    if (!wrong && bad[at(each)]) name = each;
    wrong |= bad[at(each)];
    if (value <= Infinity && !(Math.abs(value) <= Math.abs(largest.get(module)?.[0])))
      largest.set(module, [value, each]);
  }
  const sorted = [...largest.values()].sort(([a], [b]) => Math.abs(a) - Math.abs(b)),
    [low, high] = sorted.length
      ? [sorted[0], sorted.at(-1)]
      : [
          [NaN, name],
          [NaN, name],
        ],
    [value] = stat === "zero_fraction" ? high : low;
  return { value, wrong, low, high, isRange: show(low[0]) !== show(high[0]), modules: sorted.length };
}

// The boxes that lead to one that is not finite, with nothing recorded of them, if nothing else that leads to it is not
// finite. `held` says of each box what `extremes` does.
function suspects(held, links) {
  const all = new Set();
  for (const [index, { wrong }] of held) {
    if (!wrong) continue;
    const before = new Set([index]);
    let isKnown = false;
    for (const at of before)
      for (const [from] of links.filter(([, to]) => to === at)) {
        isKnown ||= held.get(from).wrong;
        if (Number.isNaN(held.get(from).value)) before.add(from);
      }
    if (!isKnown) for (const at of before) all.add(at);
  }
  return all;
}

// The first column in which something is not finite.
function brokenAt(heat) {
  if (!heat?.columns) return null;
  const at = unpacked(heat.nonfinite).reduce(
    (least, n, k) => (n ? Math.min(least, k % heat.columns) : least),
    Infinity,
  );
  return Number.isFinite(at) ? at : null;
}

// What a picture does not show of a run: the outermost modules that are trained and not in it, as those of a model that
// another one was drawn for, and the gradients of what is.
function leftOut(info, picture) {
  const drawn = new Set(Object.values(picture.tensors).flatMap((of) => Object.values(of).flat())),
    outer = [];
  for (const m of info.modules) {
    if (!m.depth) outer.push({ label: m.label, tensors: [] });
    outer.at(-1)?.tensors.push(...m.tensors);
  }
  const missing = outer
    .filter(({ tensors }) => tensors.some(([, kind]) => kind === "weight") && !tensors.some(([name]) => drawn.has(name)))
    .map(({ label }) => label);
  const [first] = info.kinds.filter((kind) => /grad$/.test(kind));
  return [
    missing.length ? `not in this graph: ${missing.slice(0, 4).join(", ")}${missing.length > 4 ? " …" : ""}` : null,
    first && !picture.tensors[first] ? `no ${kindName(first)} of what is drawn in any recorded step` : null,
  ].filter(Boolean);
}
