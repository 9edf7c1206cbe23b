// A chart as a file: a picture for slides, a drawing for papers, its numbers for everything else.
class SvgPen {
  constructor(measure) {
    Object.assign(this, { parts: [], path: "", dash: "", down: 0, groups: 0, globalAlpha: 1, measure });
  }
  clearRect() {}
  save() {}
  translate(_, y) {
    this.down += y;
  }
  setLineDash(dash) {
    this.dash = dash.join(" ");
  }
  beginPath() {
    this.path = "";
  }
  moveTo(x, y) {
    this.path += `M${this.round(x)} ${this.round(y + this.down)}`;
  }
  lineTo(x, y) {
    this.path += `${this.path ? "L" : "M"}${this.round(x)} ${this.round(y + this.down)}`;
  }
  closePath() {
    this.path += "Z";
  }
  rect(x, y, width, height) {
    this.path += `M${x} ${y + this.down}h${width}v${height}h${-width}Z`;
  }
  round(v) {
    return Math.round(v * 100) / 100;
  }
  clip() {
    this.parts.push(
      `<clipPath id="c${++this.groups}"><path d="${this.path}"/></clipPath><g clip-path="url(#c${this.groups})">`,
    );
  }
  restore() {
    this.parts.push("</g>");
  }
  stroke() {
    const dash = this.dash ? ` stroke-dasharray="${this.dash}"` : "";
    this.parts.push(
      `<path d="${this.path}" fill="none" stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}" stroke-linejoin="round" opacity="${this.globalAlpha}"${dash}/>`,
    );
  }
  fill() {
    this.parts.push(`<path d="${this.path}" fill="${this.fillStyle}" opacity="${this.globalAlpha}"/>`);
  }
  fillRect(x, y, width, height) {
    this.parts.push(
      `<rect x="${this.round(x)}" y="${this.round(y + this.down)}" width="${this.round(width)}" height="${this.round(height)}" fill="${this.fillStyle}" opacity="${this.globalAlpha}"/>`,
    );
  }
  measureText(text) {
    this.measure.font = this.font;
    return this.measure.measureText(text);
  }
  fillText(text, x, y) {
    const anchor = { center: "middle", right: "end" }[this.textAlign] || "start",
      drop = { top: 9, middle: 4 }[this.textBaseline] || 0;
    const [, weight, size] = /^(?:(\d+) )?(\d+)px/.exec(this.font);
    this.parts.push(
      `<text x="${this.round(x)}" y="${this.round(y + this.down + drop)}" text-anchor="${anchor}" fill="${this.fillStyle}" font-size="${size}" font-weight="${weight || 400}">${escaped(text)}</text>`,
    );
  }
  svg(width, height) {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, 'Segoe UI', 'Liberation Sans', sans-serif">${this.parts.join("")}</svg>`;
  }
}
const escaped = (text) => harmless(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);

// The chart below its title and the names of its lines, on the colour of the page.
const HEAD = 44;
function framed(pen, title, board, width) {
  pen.fillStyle = ink("page");
  pen.fillRect(0, 0, width, HEAD + board.tall);
  pen.font = FONT.replace("11px", "600 13px");
  pen.textAlign = "left";
  pen.textBaseline = "top";
  pen.fillStyle = ink("ink");
  pen.fillText(harmless(title), 12, 8);
  pen.font = FONT;
  let left = 12;
  for (const line of board.lines) {
    const text = harmless(line.name),
      wide = pen.measureText(text).width + 34;
    if (left > 12 && left + wide > width) break;
    pen.fillStyle = ink(line.color);
    pen.fillRect(left, 32, 14, 3);
    pen.fillStyle = ink("soft");
    pen.fillText(text, left + 19, 28);
    left += wide;
  }
  pen.translate(0, HEAD);
  board.drawn(pen, width, board.tall);
}

function csv(board) {
  // A spreadsheet takes what begins like a formula for one.
  const cell = (text) =>
    `"${harmless(text)
      .replace(/^([=+@-])/, "'$1")
      .replace(/"/g, '""')}"`;
  const rows = new Map();
  board.lines.forEach((line, column) => {
    for (let k = 0; k < line.values.length; k++) {
      const at = line.at(k);
      if (Number.isNaN(line.values[k]) && !line.told) continue;
      if (!rows.has(at)) rows.set(at, new Array(board.lines.length).fill(""));
      rows.get(at)[column] = String(line.values[k]);
    }
  });
  const order = [...rows.keys()].sort((a, b) => a - b);
  const head = [cell(board.axis.name), ...board.lines.map((line) => cell(line.name))].join(",");
  return [head, ...order.map((at) => [at, ...rows.get(at)].join(","))].join("\n").concat("\n");
}

function save(name, blob) {
  const url = URL.createObjectURL(blob),
    way = h("a", { href: url, download: name.replace(/[^\p{L}\p{N} ._-]+/gu, "-").slice(0, 120) });
  document.body.append(way);
  way.click();
  way.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

// In the frame of a notebook nothing can be saved.
const SAVES = location.origin !== "null" || location.protocol === "file:";
function exporting(title, board) {
  if (!SAVES) return null;
  const width = () => Math.max(480, board.clientWidth);
  const ways = {
    PNG: () => {
      const sheet = document.createElement("canvas"),
        scale = 2;
      sheet.width = width() * scale;
      sheet.height = (HEAD + board.tall) * scale;
      const pen = sheet.getContext("2d");
      pen.scale(scale, scale);
      framed(pen, title, board, width());
      sheet.toBlob((blob) => blob && save(`${title}.png`, blob));
    },
    SVG: () => {
      const pen = new SvgPen(document.createElement("canvas").getContext("2d"));
      framed(pen, title, board, width());
      save(`${title}.svg`, new Blob([pen.svg(width(), HEAD + board.tall)], { type: "image/svg+xml" }));
    },
    CSV: () => save(`${title}.csv`, new Blob([csv(board)], { type: "text/csv" })),
  };
  const menu = h(
    "details",
    { class: "export" },
    h("summary", { "aria-label": `save ${title}`, title: "save" }, "⤓"),
    h(
      "div",
      {},
      Object.entries(ways).map(([name, write]) =>
        h(
          "button",
          {
            onclick: () => {
              menu.open = false;
              cursorless(board, write);
            },
          },
          name,
        ),
      ),
    ),
  );
  return menu;
}
// A click elsewhere closes the menu.
addEventListener("click", ({ target }) => {
  for (const menu of document.querySelectorAll(".export[open]")) menu.open = menu.contains(target);
});
// What is saved does not show where the pointer is.
function cursorless(board, write) {
  hush();
  board.dragged = null;
  write();
}
