// The page of a code, which is in Markdown, as elements: what it says goes in as text, so that no markup of it is let in.
const INLINE = /`([^`]+)`|\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*|\[([^\]]*)\]\(([^)\s]*)\)/g;
const ITEM = /^\s*(?:[-*]|(\d+)\.) +/;

// `way` makes an element of where a link leads and of what stands on it.
function inline(text, way) {
  const found = [];
  let from = 0;
  for (const { 0: whole, 1: code, 2: bold, 3: stressed, 4: shown, 5: target, index } of text.matchAll(INLINE)) {
    found.push(text.slice(from, index));
    from = index + whole.length;
    if (code !== undefined) found.push(h("code", {}, code));
    else if (bold !== undefined) found.push(h("b", {}, inline(bold, way)));
    else if (stressed !== undefined) found.push(h("em", {}, inline(stressed, way)));
    else found.push(way(target, inline(shown, way)));
  }
  return [...found, text.slice(from)];
}

function markdown(text, way) {
  const lines = text.split("\n"),
    found = [];
  let k = 0;
  // The lines from here on of which this holds.
  const taken = (holds) => {
    const from = k;
    while (k < lines.length && holds(lines[k])) k++;
    return lines.slice(from, k);
  };
  const isFence = (line) => /^\s*```/.test(line),
    isBlank = (line) => !line.trim(),
    isPlain = (line) => !isBlank(line) && !isFence(line) && !/^(#{1,6} |\|)/.test(line) && !ITEM.test(line);
  while (k < lines.length) {
    const heading = /^(#{1,6}) (.*)$/.exec(lines[k]);
    if (isBlank(lines[k])) k++;
    else if (isFence(lines[k])) {
      k++;
      found.push(h("pre", {}, taken((line) => !isFence(line)).join("\n")));
      k++;
    } else if (heading) {
      found.push(h(heading[1].length > 1 ? "h3" : "h2", {}, inline(heading[2], way)));
      k++;
    } else if (lines[k].startsWith("|"))
      found.push(
        tableOf(
          taken((line) => line.startsWith("|")),
          way,
        ),
      );
    else if (ITEM.test(lines[k])) {
      const ordered = ITEM.exec(lines[k])[1] !== undefined,
        items = [];
      while (k < lines.length && ITEM.test(lines[k])) {
        const first = lines[k++].replace(ITEM, "");
        items.push(h("li", {}, inline([first, ...taken(isPlain)].join(" "), way)));
      }
      found.push(h(ordered ? "ol" : "ul", {}, items));
    } else {
      const first = lines[k++];
      found.push(h("p", {}, inline([first, ...taken(isPlain)].join(" "), way)));
    }
  }
  return found;
}

// A table: a head, a line of dashes, and rows.
function tableOf(lines, way) {
  const cells = (line) => line.replace(/^\||\|\s*$/g, "").split("|");
  const row = (tag, line) =>
    h(
      "tr",
      {},
      cells(line).map((cell) => h(tag, {}, inline(cell.trim(), way))),
    );
  return h(
    "div",
    { class: "table" },
    h(
      "table",
      {},
      h("thead", {}, row("th", lines[0])),
      h(
        "tbody",
        {},
        lines.slice(2).map((line) => row("td", line)),
      ),
    ),
  );
}
