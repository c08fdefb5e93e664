(() => {
  "use strict";
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const root = document.documentElement;

  // Colours are written as var(--name): plotly.js wants them spelt out, for light or dark.
  const themed = (value, style) => {
    if (Array.isArray(value)) return value.map((item) => themed(item, style));
    if (value !== null && typeof value === "object")
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, themed(item, style)]));
    const name = typeof value === "string" && value.match(/^var\((--[a-z-]+)\)$/);
    return name ? style.getPropertyValue(name[1]).trim() : value;
  };

  const draw = () => {
    const style = getComputedStyle(root);
    for (const [name, figure] of Object.entries(figures)) {
      const place = document.getElementById(`plot-${name}`);
      const { data, layout } = themed(figure, style);
      layout.width = place.clientWidth;
      Plotly.react(place, data, layout, { displayModeBar: false, locale: "en" });
    }
  };

  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  // Paper is white and narrower than a screen.
  const paper = (on) => {
    root.classList.toggle("paper", on);
    draw();
  };
  addEventListener("beforeprint", () => paper(true));
  addEventListener("afterprint", () => paper(false));
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    draw();
  });
})();
