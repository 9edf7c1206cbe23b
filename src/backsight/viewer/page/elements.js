// Elements: every text goes in as text, so that no name can become markup; and what would turn the writing around or is
// not seen at all is spelt out, as in a terminal.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
const harmless = (text) => String(text).replace(UNSEEN, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
const parts = (children) =>
  children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : harmless(child)));
function h(tag, given, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(given || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "class") element.className = value;
    else if (key === "value") element.value = value;
    else
      element.setAttribute(
        key,
        value === true ? "" : key === "title" || key === "aria-label" ? harmless(value) : value,
      );
  }
  element.append(...parts(children));
  return element;
}
const fill = (element, ...children) => {
  element.replaceChildren(...parts(children));
  return element;
};
const seen = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done))); // what is drawn by now
const link = (view, text, given = {}) => h("a", { href: address(view), ...given }, text);

// Code that is too long for a line goes on behind a dot or the like rather than in the middle of a word.
const breaking = (text) => text.split(/(?<=[._(,])/).map((part, k) => (k ? [h("wbr"), part] : part));

// A line of the program: its text, where the recording holds it, and ways to open it.
function codeLine(source, code = {}) {
  const [, file, line] = /^(.+):(\d+)$/.exec(source || "") || [];
  if (!file) return source;
  const path = file.replaceAll("\\", "/"),
    name = `${path.split("/").pop()}:${line}`;
  const isKnown = /^(\/|[A-Za-z]:)/.test(file); // a cell of a notebook is nowhere on the disk
  return [
    isKnown
      ? h("button", { class: "codeline way", title: source, onclick: () => openLine(source, path, line, code) }, name)
      : source,
    code[source] ? h("code", { class: "text" }, breaking(code[source])) : null,
  ];
}
// Which editor somebody has is not known to a page: each is offered, and the place itself to copy.
const EDITORS = { "VS Code": "vscode://file", Cursor: "cursor://file", Zed: "zed://file" };
// What a dialog shows scrolls inside of its round corners.
function opened(label, kind, ...content) {
  const dialog = h(
    "dialog",
    {
      class: `help ${kind}`,
      "aria-label": label,
      onclick: (event) => event.target === dialog && dialog.close(),
      onclose: () => dialog.remove(),
    },
    h("button", { class: "drop", "aria-label": "close", onclick: () => dialog.close() }, "×"),
    h("div", {}, content),
  );
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}
function openLine(source, path, line, code) {
  const at = `${path.startsWith("/") ? "" : "/"}${path.split("/").map(encodeURIComponent).join("/")}:${line}`;
  opened(
    "a line of the program",
    "line",
    h("h2", {}, `${path.split("/").pop()}, line ${line}`),
    code[source] ? h("pre", {}, code[source]) : null,
    h("p", { class: "soft path" }, source),
    h(
      "p",
      { class: "bar" },
      h("button", { class: "copy", "aria-label": `copy ${source}`, onclick: (e) => copied(e.target, source) }, "copy"),
      Object.entries(EDITORS).map(([editor, scheme]) => h("a", { href: `${scheme}${at}` }, `open in ${editor}`)),
    ),
  );
}
function copied(button, text) {
  navigator.clipboard?.writeText(text).then(
    () => {
      button.textContent = "copied";
      setTimeout(() => (button.textContent = "copy"), 1500);
    },
    () => {},
  );
}
function select(label, options, chosen, change) {
  const box = h(
    "select",
    { "aria-label": label || options[0][1], onchange: () => change(box.value) },
    options.map(([value, text]) => h("option", { value, selected: value === chosen }, text)),
  );
  return h("label", { class: "field" }, label && h("span", {}, label), box);
}
function segments(label, options, chosen, change) {
  return h(
    "div",
    { class: "segments", role: "radiogroup", "aria-label": label },
    options.map(([value, text]) =>
      h(
        "button",
        {
          role: "radio",
          "aria-checked": String(value === chosen),
          class: value === chosen ? "on" : "",
          onclick: () => change(value),
        },
        text,
      ),
    ),
  );
}
const empty = (title, ...lines) =>
  h(
    "div",
    { class: "empty" },
    h("h2", {}, title),
    lines.map((line) => h("p", {}, line)),
  );
const failed = (error, way) =>
  h(
    "div",
    { class: "empty bad", role: "alert" },
    h("h2", {}, "Failed"),
    h("p", {}, error.message),
    way ? h("p", {}, way) : null,
  );
const busy = (text) =>
  h("div", { class: "busy", role: "status" }, h("span", { class: "spinner", "aria-hidden": "true" }), text);

// A canvas that is as sharp as the screen, and is drawn again when its size or the colours change.
function canvas(height, draw, label) {
  const board = h("canvas", { role: "img", "aria-label": label, height });
  board.style.height = `${height}px`;
  const again = () => {
    const width = board.clientWidth;
    if (!width) return;
    const scale = window.devicePixelRatio || 1;
    board.width = Math.round(width * scale);
    board.height = Math.round(height * scale);
    const pen = board.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    draw(pen, width, height);
  };
  watched.observe(board);
  board.again = again;
  return board;
}
const watched = new ResizeObserver((entries) => {
  for (const entry of entries) entry.target.again();
});
theme.heard.push(() => {
  for (const board of document.querySelectorAll("canvas")) board.again && board.again();
});
const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const FONT = "11px system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', sans-serif";

// Text that is cut in the middle, where names of tensors are most alike.
function shortened(pen, text, room) {
  text = harmless(text);
  if (pen.measureText(text).width <= room) return text;
  let keep = Math.min(text.length, 200);
  const cut = () => `${text.slice(0, keep >> 1)}…${text.slice(text.length - (keep - (keep >> 1)))}`;
  while (keep > 1 && pen.measureText(cut()).width > room) keep--;
  return cut();
}

// What is told beside the pointer.
const bubble = h("div", { class: "bubble", role: "tooltip", hidden: true });
function tell(event, ...lines) {
  if (!bubble.isConnected) document.body.append(bubble);
  fill(
    bubble,
    lines.filter(Boolean).map((line) => h("div", {}, line)),
  );
  bubble.hidden = false;
  const box = bubble.getBoundingClientRect();
  const x = event.clientX + 14 + box.width > innerWidth ? event.clientX - box.width - 12 : event.clientX + 14;
  const y = event.clientY + 16 + box.height > innerHeight ? event.clientY - box.height - 10 : event.clientY + 16;
  bubble.style.left = `${Math.max(4, x)}px`;
  bubble.style.top = `${Math.max(4, y)}px`;
}
const hush = () => {
  bubble.hidden = true;
};
