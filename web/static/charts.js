// Draws every chart of the page: a spec lies as JSON beside each [data-chart], colours come from the theme.
// `ast: true` interprets expressions, so that the page needs no eval; styles are in app.css, not injected.
"use strict";
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
  const charts = () => [...document.querySelectorAll("[data-chart]")];
  const drawn = new Map();
  const said = new Map(); // what each chart shows now, as text

  const text = (place) => document.getElementById(place.dataset.chart).textContent;
  const draw = async (place) => {
    said.set(place, text(place));
    const result = await vegaEmbed(place, JSON.parse(text(place)), {
      mode: "vega-lite",
      ast: true,
      actions: false,
      renderer: "svg",
      defaultStyle: false,
      tooltip: { disableDefaultStyle: true, id: "tip" },
      config: window.hallbookTheme[isDark() ? "dark" : "light"],
    });
    drawn.get(place)?.finalize();
    drawn.set(place, result);
    place.dataset.state = "drawn";
  };

  const drawAll = (places) => places.forEach((place) => draw(place).catch((error) => console.error(error)));
  dark.addEventListener("change", () => drawAll(charts()));
  // A page that moves by itself (live.js) brings new figures, or a chart where there was none.
  document.addEventListener("hallbook:moved", () => drawAll(charts().filter((place) => said.get(place) !== text(place))));
  drawAll(charts());
})();
