(() => {
  "use strict";
  const root = document.documentElement;
  const all = (selector, of) => Array.from((of || document).querySelectorAll(selector));

  // Light or dark: the theme of the system until the reader chooses.
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const label = () => { button.textContent = dark() ? "Light theme" : "Dark theme"; };
  button.hidden = false;
  button.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; label(); });
  system.addEventListener("change", label);
  label();

  // The tip shows the text of the nearest mark. The mark's title is removed, or the browser would show it as well.
  const tip = document.getElementById("tip");
  for (const svg of all("figure svg.chart")) {
    // The narrow drawing has no titles: its marks are those of the wide drawing before it.
    const wide = svg.closest(".narrow") && svg.closest("figure").querySelector(".wide svg");
    const texts = wide ? all("[data-says]", wide).map((mark) => mark.dataset.says) : [];
    const marks = all(".series .mark, .series .paper", svg);
    marks.forEach((mark, n) => {
      const title = mark.querySelector("title");
      mark.dataset.says = title ? title.textContent : texts[n] || "";
      if (title) title.remove();
    });
    const names = all(".key[data-series]", svg).reduce((names, key) => {
      names[key.dataset.series] = key.textContent.trim();
      return names;
    }, {});
    svg.addEventListener("pointermove", (event) => {
      let best = null, near = 26 * 26;
      for (const mark of marks) {
        if (mark.closest(".off")) continue;
        const box = mark.getBoundingClientRect();
        const x = (box.left + box.right) / 2 - event.clientX, y = (box.top + box.bottom) / 2 - event.clientY;
        if (x * x + y * y < near) { near = x * x + y * y; best = mark; }
      }
      tip.hidden = !best;
      if (!best) return;
      const series = best.closest(".series");
      const name = series ? names[series.dataset.series] : "";
      tip.textContent = (name ? name + ": " : "") + best.dataset.says;
      const right = event.clientX + 14 + tip.offsetWidth > innerWidth;
      tip.style.left = (right ? event.clientX - 14 - tip.offsetWidth : event.clientX + 14) + "px";
      tip.style.top = Math.max(4, event.clientY - 12 - tip.offsetHeight) + "px";
    });
    svg.addEventListener("pointerleave", () => { tip.hidden = true; });

    // A click on the legend hides a series and shows it again.
    for (const key of all(".key[data-series]", svg)) {
      svg.setAttribute("role", "group");
      key.setAttribute("role", "button");
      key.setAttribute("tabindex", "0");
      key.setAttribute("aria-pressed", "true");
      const toggle = () => {
        const off = key.classList.toggle("off");
        key.setAttribute("aria-pressed", String(!off));
        for (const series of all(".series", svg)) {
          if (series.dataset.series === key.dataset.series) series.classList.toggle("off", off);
        }
      };
      key.addEventListener("click", toggle);
      key.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); toggle(); }
      });
    }
  }

  // A click on a heading sorts by its column; a second click reverses the order.
  for (const table of all("table.sortable")) {
    const heads = all("thead th", table), body = table.tBodies[0];
    heads.forEach((head, column) => {
      const by = document.createElement("button");
      by.type = "button";
      by.textContent = head.textContent;
      head.replaceChildren(by);
      by.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const value = (row) => {
          const cell = row.cells[column];
          return cell ? (cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v)) : "";
        };
        const rows = Array.from(body.rows).map((row) => [value(row), row]);
        rows.sort(([a], [b]) => {
          const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
          return down ? -order : order;
        });
        body.append(...rows.map(([, row]) => row));
      });
    });
  }

  // For printing, all details are expanded.
  addEventListener("beforeprint", () => { for (const one of all("details")) one.open = true; });
})();
