// Frames within frames. `scene` knows boxes, links between shown boxes, and which boxes are shown or open.
function laidOut(scene, measure, head) {
  const { boxes, standsFor, shown, links } = scene,
    contents = new Map(),
    around = boxes.map((b) => b.parent);
  const content = () => ({ items: [], wires: new Map() });
  contents.set(TOP, content());
  boxes.forEach((b, i) => {
    if (standsFor[i] !== i) return;
    contents.get(b.parent).items.push(i);
    if (!shown.has(i)) contents.set(i, content());
  });
  for (const link of links) runLink(contents, around, link);
  const stacked = (b, size) => (b.times > 1 ? [size[0] + 2 * STACKED, size[1] + 2 * STACKED] : size);
  const sizes = new Map([...shown].map((i) => [i, stacked(boxes[i], measure(boxes[i]))])),
    placed = new Map();
  for (const i of [...contents.keys()].sort((a, b) => b - a)) {
    placed.set(i, placeFrame(contents.get(i), sizes, placed, i, i === TOP ? 0 : head(boxes[i])));
    if (i !== TOP) sizes.set(i, stacked(boxes[i], placed.get(i).size));
  }
  return pageOf(boxes, contents, placed, sizes);
}

function runLink(contents, around, link) {
  const wire = (frame, a, b) =>
    atKey(contents.get(frame).wires, `${a} ${link[0]} ${b}`, () => ({ a, b, source: link[0], links: [] })).links.push(
      link,
    );
  let a = link[0];
  const holding = new Set([TOP]),
    inward = [link[1]];
  for (let f = a; f !== TOP; holding.add(f)) f = around[f];
  while (!holding.has(around[inward[inward.length - 1]])) inward.push(around[inward[inward.length - 1]]);
  const common = around[inward[inward.length - 1]];
  for (; around[a] !== common; a = around[a]) wire(around[a], a, around[a]);
  wire(common, a, inward[inward.length - 1]);
  for (let k = inward.length - 1; k > 0; k--) wire(inward[k], inward[k], inward[k - 1]);
}

function placeFrame(content, sizes, placed, index, needed) {
  const number = new Map(content.items.map((item, k) => [item, k])),
    n = number.size,
    all = [...content.wires.values()];
  const ins = [...new Set(all.filter((w) => w.a === index).map((w) => w.source))];
  const outs = [...new Set(all.filter((w) => w.b === index).map((w) => w.source))];
  const off = (box, side, source) => placed.get(box)[side].get(source) - sizes.get(box)[0] / 2;
  const wires = all.map((w) => ({
    a: w.a === index ? n + ins.indexOf(w.source) : number.get(w.a),
    b: w.b === index ? n + ins.length + outs.indexOf(w.source) : number.get(w.b),
    outAt: placed.has(w.a) && w.a !== index ? off(w.a, "exits", w.source) : 0,
    inAt: placed.has(w.b) && w.b !== index ? off(w.b, "entries", w.source) : 0,
  }));
  const ports = [...ins, ...outs].map(() => [PORT, 0]),
    boxes = [...content.items.map((i) => sizes.get(i)), ...ports];
  const spread = [...content.items.map((i) => !placed.has(i)), ...ports.map(() => false)];
  const layout = layered(
    boxes,
    wires,
    ins.map((_, k) => n + k),
    outs.map((_, k) => n + ins.length + k),
    spread,
  );
  if (index === TOP)
    return { layout, size: [layout.width, layout.height], left: 0, top: 0, entries: new Map(), exits: new Map() };
  const width = Math.max(layout.width + 2 * PAD, needed),
    left = (width - layout.width) / 2;
  const above = ins.length ? 0 : PAD,
    below = outs.length ? 0 : PAD;
  return {
    layout,
    left,
    top: HEAD + above,
    size: [width, HEAD + above + layout.height + below],
    entries: new Map(ins.map((s, k) => [s, left + layout.middles[n + k][0]])),
    exits: new Map(outs.map((s, k) => [s, left + layout.middles[n + ins.length + k][0]])),
  };
}

function pageOf(boxes, contents, placed, sizes) {
  const frames = new Map(),
    lines = [],
    corners = new Map([[TOP, [0, 0]]]);
  for (const index of [...contents.keys()].sort((a, b) => a - b)) {
    const own = placed.get(index),
      [x0, y0] = corners.get(index),
      x = x0 + own.left,
      y = y0 + own.top;
    contents.get(index).items.forEach((item, k) => {
      const [middle, centre] = own.layout.middles[k],
        [w, h] = sizes.get(item);
      const corner = [x + middle - w / 2, y + centre - h / 2],
        more = boxes[item].times > 1 ? 2 * STACKED : 0;
      corners.set(item, corner);
      frames.set(item, { x: corner[0], y: corner[1], width: w - more, height: h - more });
    });
    [...contents.get(index).wires.values()].forEach((w, k) => {
      const points = own.layout.wires[k].map(([px, py]) => [x + px, y + py]);
      lines.push({ points, links: w.links, arrow: !placed.has(w.b) });
    });
  }
  return { frames, lines, width: placed.get(TOP).size[0], height: placed.get(TOP).size[1] };
}
