// Finding by words: all of them have to be there. `layer.*.weight` is a pattern of the whole name, `/bias$/` an expression.
const SPECIAL = /[.+^${}()|[\]\\]/g;
function finder(text) {
  const tests = [],
    wrong = [];
  for (const word of (text || "").trim().match(/\/(?:\\.|[^/])+\/|\S+/g) || []) {
    if (word.length > 2 && word.startsWith("/") && word.endsWith("/")) {
      try {
        const expression = new RegExp(word.slice(1, -1), "iu");
        tests.push((name) => expression.test(name));
      } catch {
        wrong.push(word);
        tests.push(() => false);
      }
    } else if (/[*?]/.test(word)) {
      const pattern = word.replace(SPECIAL, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".");
      const expression = new RegExp(`^${pattern}$`, "iu");
      tests.push((name) => expression.test(name));
    } else {
      const plain = word.toLowerCase();
      tests.push((name) => name.toLowerCase().includes(plain));
    }
  }
  return { wanted: (name) => tests.every((test) => test(name)), wrong, any: tests.length > 0 };
}

// How much two words have in common: pairs of neighbouring letters, from 0 to 1.
function likeness(a, b) {
  const pairs = (text) => new Set(Array.from({ length: Math.max(text.length - 1, 1) }, (_, k) => text.slice(k, k + 2)));
  const one = pairs(a.toLowerCase()),
    other = pairs(b.toLowerCase());
  let both = 0;
  for (const each of one) both += other.has(each);
  return both / Math.min(one.size, other.size) - Math.abs(one.size - other.size) / 1000;
}
const near = (text, names_, most = 5) =>
  [...new Set(names_)]
    .slice(0, 20000)
    .map((name) => [likeness(text.replace(/[*?/\\]/g, ""), name), name])
    .filter(([much]) => much >= 0.4)
    .sort((a, b) => b[0] - a[0])
    .slice(0, most)
    .map(([, name]) => name);

// What to say where nothing was found, with ways to what is called alike.
function noMatch(text, names_, among, choose) {
  const { wrong } = finder(text),
    close = near(text, names_);
  return h(
    "div",
    { class: "empty" },
    h("h2", {}, "No match"),
    h("p", {}, wrong.length ? `${wrong[0]} is not a valid expression.` : `Nothing among ${among} matches “${text}”.`),
    close.length
      ? h(
          "p",
          { class: "near" },
          "Close to it: ",
          close.map((name) => h("button", { class: "way", onclick: () => choose(name) }, name)),
        )
      : null,
    h("p", { class: "hint" }, "several words, layers.*.weight, or /expression/"),
  );
}
const searchBox = (what, text, change) => {
  const box = h("input", {
    type: "search",
    placeholder: innerWidth > 720 ? `find ${what}  ( / )` : `find ${what}`,
    title: "several words, layers.*.weight, or /expression/",
    "aria-label": `find ${what}`,
    value: text || "",
    oninput: () => change?.(box.value || undefined),
  });
  return box;
};
