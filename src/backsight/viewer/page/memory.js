// The memory of a step: bytes by kind over its time, and what was alive at the moment that is pointed at.
const MEMORY_ROWS = 25;
// Multiples of 1024, as memory is counted.
function memoryAmount(n) {
  if (n < 999.5) return `${Math.round(n)} B`;
  let unit = "";
  for (unit of ["KB", "MB", "GB", "TB"]) {
    n /= 1024;
    if (n < 999.5) break;
  }
  return `${n.toFixed(n < 9.995 ? 2 : n < 99.95 ? 1 : 0)} ${unit}`;
}
const lasting = (ms) => (ms >= 1000 ? `${(ms / 1000).toFixed(2)} s` : `${Number(ms.toPrecision(3))} ms`);

// Lines of the script are served without their indentation.
const MEASURED = [
  "with backsight.record(model, optimizer) as rec:",
  "    with backsight.measure_memory(model, optimizer) as m:",
  "        ...  # one training step",
  "    rec.memory(m)",
].join("\n");

function memoryPage(state, info, app) {
  const place = h("section", { class: "page" }, busy("reading"));
  app.refreshed = async () => {
    const answer = await ask(state.run, "memory", {}, app.signal);
    if (answer.step === null)
      fill(
        place,
        h(
          "div",
          { class: "empty" },
          h("h2", {}, "No step was measured"),
          h(
            "p",
            {},
            h("code", {}, "backsight run --record"),
            " does not measure memory. In a script that records itself, measure a step:",
          ),
          h("pre", {}, MEASURED),
          h(
            "p",
            {},
            "What a step will need, before it runs: ",
            h("code", {}, "backsight forecast train.py:step"),
            ", where step() does one, or returns model, batch and optimizer.",
          ),
        ),
      );
    else fill(place, drawMemory(answer));
  };
  app.refreshed().catch((error) => error.name === "AbortError" || fill(place, failed(error)));
  return place;
}

function drawMemory(answer) {
  const hidden = new Set(),
    kinds = answer.kinds,
    times = answer.times,
    peak = answer.peak.at,
    slugOf = Object.fromEntries(kinds.map((k) => [k.kind, k.slug]));
  const edge = { left: 72, right: 14, top: 26, bottom: 24 },
    height = 340;
  let moment = peak,
    heldAt = null,
    range = [0, answer.end],
    drag = null;
  const shown = () => kinds.filter((k) => !hidden.has(k.kind));
  const x = (ms, width) =>
    edge.left + ((ms - range[0]) / Math.max(range[1] - range[0], 1e-9)) * (width - edge.left - edge.right);
  const at = (ms) => {
    let low = 0,
      high = times.length - 1;
    while (low < high) {
      const mid = (low + high + 1) >> 1;
      times[mid] <= ms ? (low = mid) : (high = mid - 1);
    }
    return low;
  };
  const fillOf = (slug) => ink(`memory-${slug}`) || ink("soft");
  const board = canvas(height, draw, "bytes by kind during the step; arrow keys move");
  board.tabIndex = 0;

  function draw(pen, width) {
    pen.clearRect(0, 0, width, height);
    pen.font = FONT;
    const from = at(range[0]),
      to = at(range[1]),
      seen = shown(),
      totals = [];
    for (let k = from; k <= to; k++) totals.push(seen.reduce((sum, kind) => sum + kind.bytes[k], 0));
    const top = Math.max(1, ...totals) * 1.1,
      y = (n) => height - edge.bottom - (n / top) * (height - edge.top - edge.bottom);
    const unit = 1024 ** Math.max(0, Math.floor(Math.log2(top) / 10));
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    for (const n of ticks(0, top / unit, 6)) {
      pen.strokeStyle = ink("grid");
      pen.beginPath();
      pen.moveTo(edge.left, Math.round(y(n * unit)) + 0.5);
      pen.lineTo(width - edge.right, Math.round(y(n * unit)) + 0.5);
      pen.stroke();
      pen.fillStyle = ink("soft");
      pen.fillText(
        n ? `${Number(n.toPrecision(5))} ${memoryAmount(unit).split(" ")[1]}` : "0",
        edge.left - 8,
        y(n * unit),
      );
    }
    const under = new Float64Array(to - from + 1),
      right = (k) =>
        k < to ? Math.max(x(times[k + 1], width), x(times[k], width) + 2, edge.left) : x(range[1], width); // a spike has two pixels
    for (const kind of seen) {
      pen.fillStyle = fillOf(kind.slug);
      pen.beginPath();
      const left = (k) => Math.max(x(times[k], width), edge.left);
      pen.moveTo(left(from), y(under[0]));
      for (let k = from; k <= to; k++) {
        const over = y(under[k - from] + kind.bytes[k]);
        pen.lineTo(left(k), over);
        pen.lineTo(right(k), over);
      }
      for (let k = to; k >= from; k--) {
        pen.lineTo(right(k), y(under[k - from]));
        pen.lineTo(left(k), y(under[k - from]));
      }
      pen.fill();
      for (let k = from; k <= to; k++) under[k - from] += kind.bytes[k];
    }
    pen.textAlign = "center";
    pen.textBaseline = "alphabetic";
    answer.passes.forEach(([phase, began, ended], number) => {
      const a = Math.max(x(began, width), edge.left),
        b = Math.min(x(ended, width), width - edge.right);
      if (b - a < 3) return;
      pen.strokeStyle = ink("soft");
      pen.globalAlpha = 0.5;
      if (number && a > edge.left) {
        pen.beginPath();
        pen.moveTo(Math.round(a) + 0.5, 8);
        pen.lineTo(Math.round(a) + 0.5, height - edge.bottom);
        pen.stroke();
      }
      pen.globalAlpha = 1;
      pen.fillStyle = ink("soft");
      if (b - a > pen.measureText(phase).width + 8) pen.fillText(phase, (a + b) / 2, 16);
    });
    for (const ms of ticks(range[0], range[1], Math.max(2, width / 130))) {
      const text = ms ? `${Number(ms.toPrecision(5))} ms` : "0",
        half = pen.measureText(text).width / 2;
      pen.fillText(text, clamp(x(ms, width), half, width - half), height - 7);
    }
    if (peak >= from && peak <= to && !hidden.size) {
      const px = clamp(x(times[peak], width), edge.left, width - edge.right),
        py = y(totals[peak - from]),
        text = `peak ${memoryAmount(answer.peak.bytes)}`;
      pen.fillStyle = ink("page");
      pen.strokeStyle = ink("ink");
      pen.lineWidth = 1.5;
      pen.beginPath();
      pen.arc(px, py, 4, 0, 7);
      pen.fill();
      pen.stroke();
      pen.font = `600 ${FONT}`;
      pen.textAlign = px > width * 0.6 ? "right" : "left";
      pen.lineWidth = 4;
      pen.strokeStyle = ink("page");
      pen.fillStyle = ink("ink");
      const where = px + (px > width * 0.6 ? -9 : 9);
      pen.strokeText(text, where, py - 7);
      pen.fillText(text, where, py - 7);
      pen.lineWidth = 1;
    }
    if (moment >= from && moment <= to) {
      const px = Math.round(Math.max(x(times[moment], width), edge.left)) + 0.5;
      pen.strokeStyle = ink("ink");
      pen.lineWidth = 1;
      pen.beginPath();
      pen.moveTo(px, edge.top);
      pen.lineTo(px, height - edge.bottom);
      pen.stroke();
    }
    if (drag) {
      pen.fillStyle = ink("ink");
      pen.globalAlpha = 0.15;
      pen.fillRect(Math.min(...drag), edge.top, Math.abs(drag[1] - drag[0]), height - edge.top - edge.bottom);
      pen.globalAlpha = 1;
    }
  }

  const title = h("h3", { role: "status" }),
    keys = h("div", { class: "kinds" }),
    table = h("div", { class: "table" });
  const point = (to) => {
    moment = clamp(to, 0, times.length - 1);
    board.again();
    say();
  };
  function say() {
    const ms = times[moment],
      span = answer.spans.filter((s) => s[1] <= ms).pop(),
      all = kinds.reduce((sum, k) => sum + k.bytes[moment], 0);
    title.textContent = `${moment === peak ? "At the peak, " : ""}${lasting(Math.max(ms, 0))}${span ? `, ${span[0]}` : ""}: ${memoryAmount(all)}`;
    fill(
      keys,
      [...kinds].reverse().map((kind) => {
        const swatch = h("i", {});
        swatch.style.background = `var(--memory-${kind.slug})`;
        return h(
          "button",
          {
            "aria-pressed": String(!hidden.has(kind.kind)),
            onclick: () => {
              hidden.has(kind.kind) ? hidden.delete(kind.kind) : hidden.add(kind.kind);
              point(moment);
            },
          },
          swatch,
          `${kind.kind} `,
          h("span", { class: "soft" }, memoryAmount(kind.bytes[moment])),
        );
      }),
    );
    const there = answer.blocks.filter(
        ([, , , , kind, , , , born, died]) =>
          born <= ms + 1e-4 && (died === null || died > ms + 1e-4) && !hidden.has(kind),
      ),
      more = there.length - MEMORY_ROWS;
    const rest = [
      more > 0 ? `${count(more)} more` : null,
      answer.rest > 0 ? `live part of ${count(answer.rest)} smaller ones` : null,
    ]
      .filter(Boolean)
      .join(" and ");
    fill(
      table,
      h(
        "table",
        { class: "alive" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ["tensor", "bytes", "shape", "kind", "module", "made at", "autograd node", "lives"].map((t, k) =>
              h("th", { class: k === 1 || k === 7 ? "right" : "" }, t),
            ),
          ),
        ),
        h(
          "tbody",
          {},
          there.slice(0, MEMORY_ROWS).map(([name, size, shape, dtype, kind, module, source, node, born, died]) => {
            const swatch = h("i", { class: "dot" });
            swatch.style.background = `var(--memory-${slugOf[kind]})`;
            return h(
              "tr",
              {},
              h("td", { class: "long", title: name }, swatch, name),
              h("td", { class: "right" }, memoryAmount(size)),
              h("td", { class: "long", title: `${shape} ${dtype}`.trim() }, `${shape} ${dtype}`.trim()),
              h("td", {}, kind),
              h("td", { class: "long", title: module }, module),
              h("td", { class: "long" }, codeLine(source)),
              h("td", { class: "long", title: node }, node),
              h(
                "td",
                { class: "right soft" },
                `${born < 0 ? "before" : lasting(born)} – ${died === null ? "after" : lasting(died)}`,
              ),
            );
          }),
          rest ? h("tr", {}, h("td", { colspan: 8, class: "soft" }, rest)) : null,
        ),
      ),
    );
  }
  const offset = (event) =>
    clamp(event.clientX - board.getBoundingClientRect().left, edge.left, board.clientWidth - edge.right);
  const timeAt = (px) =>
    range[0] + ((px - edge.left) / (board.clientWidth - edge.left - edge.right)) * (range[1] - range[0]);
  board.addEventListener("pointermove", (event) => {
    if (drag) {
      drag[1] = offset(event);
      board.again();
    } else if (heldAt === null) point(at(timeAt(offset(event))));
  });
  board.addEventListener("pointerdown", (event) => {
    board.setPointerCapture(event.pointerId);
    drag = [offset(event), offset(event)];
  });
  board.addEventListener("pointerup", () => {
    if (!drag) return;
    const [a, b] = drag.map(timeAt).sort((p, q) => p - q),
      far = Math.abs(drag[1] - drag[0]);
    drag = null;
    if (far > 6) {
      range = [a, b];
      point(moment);
    } else {
      point(at(a));
      heldAt = heldAt === null ? moment : null;
    }
  });
  board.addEventListener("pointerleave", () => {
    if (heldAt === null && !drag) point(peak);
  });
  board.addEventListener("dblclick", () => {
    range = [0, answer.end];
    heldAt = null;
    point(peak);
  });
  board.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by) {
      event.preventDefault();
      heldAt = moment;
      point(moment + by * (event.shiftKey ? 10 : 1));
    }
    if (event.key === "Escape") {
      range = [0, answer.end];
      heldAt = null;
      point(peak);
    }
  });
  say();
  const where = answer.where.charAt(0).toUpperCase() + answer.where.slice(1);
  return [
    h(
      "div",
      { class: "memory" },
      h("h2", { title: where }, where),
      h("p", { class: "soft" }, `Step ${count(answer.step)}, ${answer.about}`),
    ),
    keys,
    h(
      "figure",
      { class: "panel" },
      board,
      h(
        "p",
        { class: "hint" },
        "Point at a moment to see what was alive; click to pin it, drag to zoom, double-click or Escape to reset. Click a kind to hide it.",
      ),
    ),
    h(
      "details",
      { class: "memory" },
      h("summary", {}, "What the peak is made of"),
      h(
        "ul",
        { class: "held" },
        answer.held.map((part) => h("li", {}, part)),
      ),
    ),
    title,
    table,
  ];
}
