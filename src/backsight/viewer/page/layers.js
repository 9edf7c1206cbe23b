// The rows of a heatmap: which tensors and modules it shows, and what got no gradient at all.
const MOST_OPEN = 150, // rows of a model that is shown with all of its modules open
  MOST_SHOWN = 80, // rows of a larger one, as it is first shown,
  FEWEST_SHOWN = 8, // unless so few are left that they show nothing of the model: a very deep one is scrolled
  MOST_SCROLLED = 400;

// The rows to show: a tensor each, under the modules that hold others; a closed module is one row of its largest values.
// Of gradients, what is trained and got none has a row without colours: a whole module of it is one row.
function rowsOf(info, kinds, closed, find) {
  const { wanted } = finder(find);
  const modules = info.modules.map((m) => ({
    ...m,
    own: m.tensors.filter(([name, kind]) => kinds.includes(kind) && wanted(name)),
    below: [],
    idle: [],
    idleBelow: [],
    isTrained: m.tensors.some(([, kind]) => kind === "weight"),
  }));
  const missing = new Set(kinds.flatMap((kind) => info.ungraded[kind] || []));
  for (const m of missing.size ? modules : [])
    m.idle = m.tensors.filter(([name, kind]) => kind === "weight" && missing.has(name) && wanted(name));
  const stack = [];
  for (const m of modules) {
    while (stack.length && stack[stack.length - 1].depth >= m.depth) stack.pop();
    m.above = stack.slice();
    for (const around of [...stack, m]) {
      around.below.push(...m.own);
      around.idleBelow.push(...m.idle);
      around.isTrained ||= m.isTrained;
    }
    if (stack.length) stack[stack.length - 1].holds = stack[stack.length - 1].holds || m.own.length + m.idle.length > 0 || undefined;
    stack.push(m);
  }
  for (const m of modules)
    if (m.below.length + m.idleBelow.length) for (const around of m.above) around.holds = true;
  // Where several models are trained, each row says of which it is, also where only one has something to show.
  const rows = [],
    outer = modules.filter((m) => m.depth === 0),
    lone =
      outer.filter((m) => m.isTrained).length < 2 &&
      outer.filter((m) => m.below.length + m.idleBelow.length).length === 1;
  for (const m of modules) {
    if (m.above.some((around) => around.isIdle || isClosed(around, closed, lone))) continue;
    m.isIdle = !m.below.length && m.idleBelow.length > 0;
    if (m.isIdle) {
      const depth = Math.max(0, m.depth - (lone ? 1 : 0));
      rows.push({ idle: m.idleBelow, label: m.label, type: m.type, depth, name: m.name });
      continue;
    }
    if (!m.below.length) continue;
    const level = Math.max(0, m.depth - (lone ? 1 : 0)),
      group = m.holds && !(lone && m.depth === 0);
    if (group)
      rows.push({
        group: m.name,
        label: m.label,
        type: m.type,
        depth: level,
        tensors: m.below,
        closed: closed.has(m.name),
      });
    if (group && closed.has(m.name)) continue;
    for (const [name, kind, shape] of m.own) {
      const own = m.name && name.startsWith(`${m.name}.`) ? name.slice(m.name.length + 1) : name;
      const label = group || (lone && m.depth === 0) ? own : own === m.name ? m.label : `${m.label}.${own}`;
      rows.push({
        name,
        kind,
        shape,
        label: name === own && m.name === null ? name : label,
        depth: group ? level + 1 : level,
      });
    }
    for (const [name, , shape] of m.idle) {
      const own = m.name && name.startsWith(`${m.name}.`) ? name.slice(m.name.length + 1) : name,
        label = group || (lone && m.depth === 0) ? own : `${m.label}.${own}`;
      rows.push({ idle: [[name, "weight", shape]], name, shape, label, depth: group ? level + 1 : level });
    }
  }
  return rows;
}
const NO_GRADIENT = "no gradient in any recorded step";
// Of a model of very many tensors the modules that are closed at first, so that one page shows all of it.
function overview(info, kind) {
  const modules = info.modules.filter((m) => m.depth > 0);
  let closed = new Set();
  if (rowsOf(info, [kind], closed, "").length <= MOST_OPEN) return closed;
  for (let depth = Math.max(...modules.map((m) => m.depth)); depth > 0; depth--) {
    const before = closed;
    closed = new Set(modules.filter((m) => m.depth >= depth).map((m) => m.name));
    const rows = rowsOf(info, [kind], closed, "").length;
    if (rows < FEWEST_SHOWN && before.size && rowsOf(info, [kind], before, "").length <= MOST_SCROLLED) return before;
    if (rows <= MOST_SHOWN) break;
  }
  return closed;
}
const isOpen = (row) => row.group !== undefined && !row.closed; // its tensors follow
const isClosed = (m, closed, lone) => m.holds && closed.has(m.name) && !(lone && m.depth === 0);
