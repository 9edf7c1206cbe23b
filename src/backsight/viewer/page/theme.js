// Light or dark: as the system has it, unless the reader has chosen otherwise in this browser.
const SYSTEM_DARK = matchMedia("(prefers-color-scheme: dark)"),
  CHOSEN_THEME = "backsight-theme";
const OF_DARK = [...document.styleSheets]
  .flatMap((sheet) => [...sheet.cssRules])
  .filter((rule) => rule instanceof CSSMediaRule && /prefers-color-scheme: ?dark/.test(rule.media.mediaText))
  .map(({ media }) => [media, media.mediaText]);
const theme = {
  dark: SYSTEM_DARK.matches,
  chosen: null,
  heard: [], // what is drawn anew, in this order
  apply() {
    const { chosen } = theme;
    theme.dark = chosen ? chosen === "dark" : SYSTEM_DARK.matches;
    for (const [media, ofSystem] of OF_DARK)
      media.mediaText = !chosen ? ofSystem : chosen === "dark" ? "screen" : "not all";
    document.querySelector('meta[name="color-scheme"]').content = chosen || "light dark";
    for (const each of theme.heard) each();
  },
  // The other one; what the system has anyway is no choice, and goes on to follow it.
  turn() {
    const other = theme.dark ? "light" : "dark";
    theme.chosen = (other === "dark") === SYSTEM_DARK.matches ? null : other;
    try {
      if (theme.chosen) localStorage.setItem(CHOSEN_THEME, theme.chosen);
      else localStorage.removeItem(CHOSEN_THEME);
    } catch {
      /* a frame of a notebook may keep nothing */
    }
    theme.apply();
  },
};
try {
  const kept = localStorage.getItem(CHOSEN_THEME);
  if (kept === "light" || kept === "dark") theme.chosen = kept;
} catch {
  /* see above */
}
if (theme.chosen) theme.apply();
SYSTEM_DARK.addEventListener("change", theme.apply);
