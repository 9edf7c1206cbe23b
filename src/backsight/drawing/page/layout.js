// Where the boxes stand and how the lines run. The same steps, in the same order, as in backsight/drawing/layout:
// what is explained there is not explained again.
const BOX_GAP = 22,
  WIRE_GAP = 12,
  RANK_GAP = 22,
  STEEPEST = 0.08,
  LONGEST = 12,
  ARRIVAL_GAP = 12,
  STRAIGHT = 8;
const PAD = 14,
  HEAD = 24,
  STACKED = 4,
  PORT = 8,
  TOP = -1;

const lists = (n) => Array.from({ length: n }, () => []);
const least = (values, otherwise) => values.reduce((a, b) => Math.min(a, b), otherwise);
const most = (values, otherwise) => values.reduce((a, b) => Math.max(a, b), otherwise);
const atKey = (map, key, make) => {
  if (!map.has(key)) map.set(key, make());
  return map.get(key);
};

function ranks(n, wires, entries, exits) {
  const after = lists(n),
    before = lists(n),
    top = new Set(entries),
    bottom = new Set(exits);
  for (const w of wires) {
    after[w.a].push(w.b);
    before[w.b].push(w.a);
  }
  const inner = [...Array(n).keys()].filter((v) => !top.has(v) && !bottom.has(v));
  const height = new Array(n).fill(0),
    sources = inner.filter((v) => !before[v].length);
  for (const v of inner.slice().reverse())
    height[v] = most(
      after[v].map((w) => height[w] + 1),
      0,
    );
  const main = top.size ? -1 : sources.reduce((a, v) => (a >= 0 && height[a] >= height[v] ? a : v), -1);
  const rank = Array.from({ length: n }, (_, v) => (top.has(v) ? -1 : 0)),
    free = rank.map((r, v) => r === 0 && v !== main);
  for (const v of inner) {
    rank[v] = most(
      before[v].map((u) => rank[u] + 1),
      0,
    );
    free[v] = free[v] && before[v].every((u) => free[u]);
  }
  const end =
    most(
      inner.map((v) => rank[v]),
      -1,
    ) + 1;
  for (const v of exits) rank[v] = end;
  for (const v of inner.slice().reverse())
    if (free[v] && after[v].length)
      rank[v] =
        least(
          after[v].map((w) => rank[w]),
          Infinity,
        ) - 1;
  const lowest = least(rank, Infinity);
  return rank.map((r) => r - lowest);
}

function crossings(layers, down) {
  let total = 0;
  for (let k = 0; k + 1 < layers.length; k++) {
    const place = new Map(layers[k + 1].map((v, i) => [v, i]));
    const wires = layers[k].flatMap((v, i) => down[v].map((j) => [i + j.here, place.get(j.box) + j.there]));
    wires.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const ends = [...new Set(wires.map((w) => w[1]))].sort((a, b) => a - b);
    const number = new Map(ends.map((end, i) => [end, i + 1])),
      tree = new Array(ends.length + 1).fill(0);
    wires.forEach(([, end], seen) => {
      let notRight = 0;
      for (let i = number.get(end); i; i &= i - 1) notRight += tree[i];
      total += seen - notRight;
      for (let i = number.get(end); i < tree.length; i += i & -i) tree[i]++;
    });
  }
  return total;
}

function ordered(layers, up, down, key) {
  let now = layers.map((layer) => layer.slice().sort((a, b) => key[a] - key[b]));
  let best = now,
    fewest = crossings(now, down);
  for (let sweep = 0; sweep < 8 && fewest; sweep++) {
    now = swept(now, sweep % 2 ? down : up, sweep % 2 === 1);
    const count = crossings(now, down);
    if (count < fewest) {
      best = now;
      fewest = count;
    }
  }
  return best;
}

function swept(layers, joined, upwards) {
  const place = new Map(),
    out = layers.slice();
  const order = [...layers.keys()];
  for (const k of upwards ? order.reverse() : order) {
    const own = new Map(out[k].map((v, i) => [v, i - (out[k].length - 1) / 2])),
      mean = new Map();
    for (const v of out[k])
      mean.set(
        v,
        joined[v].length
          ? joined[v].reduce((s, j) => s + place.get(j.box) + j.there, 0) / joined[v].length
          : own.get(v),
      );
    out[k] = out[k].slice().sort((a, b) => mean.get(a) - mean.get(b));
    out[k].forEach((v, i) => place.set(v, i - (out[k].length - 1) / 2));
  }
  return out;
}

function across(layers, widths, gaps, up, down) {
  const x = new Array(widths.length).fill(0);
  const apart = layers.map((layer, k) => {
    const offsets = [0];
    for (let i = 1; i < layer.length; i++)
      offsets.push(offsets[i - 1] + (widths[layer[i - 1]] + widths[layer[i]]) / 2 + gaps[k][i - 1]);
    layer.forEach((v, i) => {
      x[v] = offsets[i] - offsets[offsets.length - 1] / 2;
    });
    return offsets;
  });
  for (let sweep = 0; sweep < 10; sweep++) {
    const joined = sweep % 2 ? down : up,
      order = [...layers.keys()];
    for (const k of sweep % 2 ? order.reverse() : order) {
      const blocks = [];
      layers[k].forEach((v, i) => {
        const weight = joined[v].reduce((s, j) => s + j.weight, 0);
        const wanted = weight ? joined[v].reduce((s, j) => s + j.weight * (x[j.box] - j.shift), 0) / weight : x[v];
        let mass = weight || 0.1,
          pull = (wanted - apart[k][i]) * mass,
          count = 1;
        while (blocks.length && blocks[blocks.length - 1][0] / blocks[blocks.length - 1][1] >= pull / mass) {
          const [p, m, c] = blocks.pop();
          pull += p;
          mass += m;
          count += c;
        }
        blocks.push([pull, mass, count]);
      });
      let i = 0;
      for (const [pull, mass, count] of blocks)
        for (let c = 0; c < count; c++, i++) x[layers[k][i]] = pull / mass + apart[k][i];
    }
  }
  return x;
}

function straightened(columns, layers, widths, gaps, x) {
  const left = new Map(),
    right = new Map();
  layers.forEach((layer, k) =>
    layer.slice(1).forEach((b, i) => {
      const a = layer[i],
        space = (widths[a] + widths[b]) / 2 + gaps[k][i];
      right.set(a, [b, space]);
      left.set(b, [a, space]);
    }),
  );
  const align = (run, low, high) => {
    if (!run.length) return;
    const middle = run.map(([v, s]) => x[v] - s).sort((a, b) => a - b)[run.length >> 1];
    const place = Math.min(Math.max(middle, low), high);
    for (const [v, s] of run) x[v] = place + s;
  };
  for (const column of columns) {
    let run = [],
      low = -Infinity,
      high = Infinity;
    for (const [v, s] of column) {
      const l = left.get(v),
        r = right.get(v);
      const a = l ? x[l[0]] + l[1] - s : -Infinity,
        b = r ? x[r[0]] - r[1] - s : Infinity;
      if (Math.max(low, a) > Math.min(high, b)) {
        align(run, low, high);
        run = [];
        low = -Infinity;
        high = Infinity;
      }
      run.push([v, s]);
      low = Math.max(low, a);
      high = Math.min(high, b);
    }
    align(run, low, high);
  }
  return x;
}

function columnsOf(n, passing, up, down) {
  const columns = passing.filter((places) => places.length > 1).map((places) => places.map((p) => [p, 0]));
  const next = new Map(),
    last = new Map();
  for (let v = 0; v < n; v++) {
    const below = down[v].filter((j) => j.box < n),
      above = up[v].filter((j) => j.box < n);
    if (below.length)
      next.set(
        v,
        below.reduce((a, b) => (b.box < a.box ? b : a)),
      );
    if (above.length)
      last.set(
        v,
        above.reduce((a, b) => (b.box > a.box ? b : a)),
      );
  }
  for (const [v, j] of [...last]) if (!up[j.box].length && up[v].length > 1) last.delete(v);
  for (let v = 0; v < n; v++) {
    if (last.has(v) && (next.get(last.get(v).box) || {}).box === v) continue;
    const column = [[v, 0]];
    let shift = 0,
      at = v,
      step;
    while ((step = next.get(at)) && (last.get(step.box) || {}).box === at) {
      shift += step.shift;
      column.push([(at = step.box), shift]);
    }
    if (column.length > 1) columns.push(column);
  }
  return columns.sort((a, b) => b.length - a.length);
}

function lanesOf(long, wires, rank, x, widths) {
  const right = most(
      x.map((place, v) => place + widths[v] / 2),
      -Infinity,
    ),
    ends = [],
    lanes = new Map();
  for (const k of [...long].sort((a, b) => rank[wires[a].a] - rank[wires[b].a] || a - b)) {
    let lane = ends.findIndex((end) => end <= rank[wires[k].a]);
    if (lane < 0) lane = ends.length;
    ends[lane] = rank[wires[k].b];
    lanes.set(k, right + BOX_GAP + lane * WIRE_GAP);
  }
  return lanes;
}

function spreadArrivals(routes, wires, sizes, spread) {
  const arriving = new Map();
  wires.forEach((w, k) => {
    if (spread[w.b]) atKey(arriving, w.b, () => []).push(k);
  });
  const from = routes.map((route) => route[route.length - 2]);
  for (const [b, several] of arriving) {
    several.sort((p, q) => from[p] - from[q] || p - q);
    const step = Math.min(ARRIVAL_GAP, (sizes[b][0] * 0.7) / several.length);
    several.forEach((k, i) => {
      routes[k][routes[k].length - 1] += (i - (several.length - 1) / 2) * step;
    });
  }
}

function layered(sizes, wires, entries, exits, spread) {
  if (!sizes.length) return { middles: [], wires: [], width: 0, height: 0 };
  const n = sizes.length,
    rank = ranks(n, wires, entries, exits);
  const widths = sizes.map((s) => s[0]),
    key = sizes.map((_, v) => v),
    up = lists(n),
    down = lists(n),
    long = new Set();
  const join = (a, b, outAt, inAt) => {
    const weight = a >= n && b >= n ? STRAIGHT : 1;
    const leaves = outAt / (widths[a] || 1),
      reaches = inAt / (widths[b] || 1);
    down[a].push({ box: b, shift: outAt - inAt, weight, here: leaves, there: reaches });
    up[b].push({ box: a, shift: inAt - outAt, weight, here: reaches, there: leaves });
  };
  const passing = wires.map((w, k) => {
    const places = [];
    if (rank[w.b] - rank[w.a] > LONGEST) {
      long.add(k);
      return places;
    }
    let above = w.a,
      at = w.outAt;
    for (let r = rank[w.a] + 1; r < rank[w.b]; r++) {
      const place = widths.length;
      widths.push(0);
      rank.push(r);
      key.push(rank[w.a] ? key[w.a] + 0.5 : -0.5);
      up.push([]);
      down.push([]);
      join(above, place, at, 0);
      places.push(place);
      above = place;
      at = 0;
    }
    join(above, w.b, at, w.inAt);
    return places;
  });
  const count = most(rank, 0) + 1;
  let layers = lists(count);
  rank.forEach((r, v) => layers[r].push(v));
  layers = ordered(layers, up, down, key);
  const gaps = layers.map((l) => l.slice(1).map((b, i) => (widths[l[i]] && widths[b] ? BOX_GAP : WIRE_GAP)));
  const x = straightened(columnsOf(n, passing, up, down), layers, widths, gaps, across(layers, widths, gaps, up, down));
  if (entries.length === 1 && exits.length === 1) x[entries[0]] = x[exits[0]];
  const lanes = lanesOf(long, wires, rank, x, widths);
  const routes = wires.map((w, k) => {
    const inner = long.has(k) ? new Array(rank[w.b] - rank[w.a] - 1).fill(lanes.get(k)) : passing[k].map((p) => x[p]);
    return [x[w.a] + w.outAt, ...inner, x[w.b] + w.inAt];
  });
  spreadArrivals(routes, wires, sizes, spread);
  const bands = bandsOf(sizes, rank, routes, wires, count),
    all = routes.flat();
  const left = least(
    all,
    least(
      x.map((p, v) => p - widths[v] / 2),
      Infinity,
    ),
  );
  const right = most(
    all,
    most(
      x.map((p, v) => p + widths[v] / 2),
      -Infinity,
    ),
  );
  const middles = sizes.map((_, v) => [x[v] - left, (bands[rank[v]][0] + bands[rank[v]][1]) / 2]);
  const lines = wires.map((w, k) =>
    pointsOf(
      routes[k].map((p) => p - left),
      bands,
      rank[w.a],
      middles[w.a][1] + sizes[w.a][1] / 2,
      middles[w.b][1] - sizes[w.b][1] / 2,
    ),
  );
  return { middles, wires: lines, width: right - left, height: bands[count - 1][1] };
}

function bandsOf(sizes, rank, routes, wires, count) {
  const heights = new Array(count).fill(0),
    sideways = new Array(count).fill(0);
  sizes.forEach((s, v) => {
    heights[rank[v]] = Math.max(heights[rank[v]], s[1]);
  });
  wires.forEach((w, k) =>
    routes[k].slice(1).forEach((b, i) => {
      sideways[rank[w.a] + i] = Math.max(sideways[rank[w.a] + i], Math.abs(routes[k][i] - b));
    }),
  );
  let y = 0;
  return heights.map((height, r) => {
    const band = [y, y + height];
    y += height + RANK_GAP + Math.min(RANK_GAP, sideways[r] * STEEPEST);
    return band;
  });
}

function pointsOf(route, bands, top, start, stop) {
  const end = top + route.length - 1,
    points = [
      [route[0], start],
      [route[0], bands[top][1]],
    ];
  route.slice(1, -1).forEach((p, i) => points.push([p, bands[top + 1 + i][0]], [p, bands[top + 1 + i][1]]));
  points.push([route[route.length - 1], bands[end][0]], [route[route.length - 1], stop]);
  return points.filter(
    (p, i) => !i || i === points.length - 1 || !(points[i - 1][0] === p[0] && p[0] === points[i + 1][0]),
  );
}
