// Draws every chart of the page: a spec lies as JSON beside each [data-chart], colours come from the theme.
// `ast: true` interprets expressions, so that the page needs no eval; styles are in app.css, not injected.
"use strict";
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const charts = [...document.querySelectorAll("[data-chart]")];
  const drawn = new Map();

  const draw = async (place) => {
    const spec = JSON.parse(document.getElementById(place.dataset.chart).textContent);
    const result = await vegaEmbed(place, spec, {
      mode: "vega-lite",
      ast: true,
      actions: false,
      renderer: "svg",
      defaultStyle: false,
      tooltip: { disableDefaultStyle: true, id: "tip" },
      config: window.hallbookTheme[dark.matches ? "dark" : "light"],
    });
    drawn.get(place)?.finalize();
    drawn.set(place, result);
    place.dataset.state = "drawn";
  };

  const drawAll = () => charts.forEach((place) => draw(place).catch((error) => console.error(error)));
  dark.addEventListener("change", drawAll);
  drawAll();
})();
