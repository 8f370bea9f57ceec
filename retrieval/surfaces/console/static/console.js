// What HTML cannot say: the theme, what a slider stands at, copying, and selects that show their page at once.
(function () {
  "use strict";
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => localStorage.getItem("theme") || (dark.matches ? "dark" : "light");
  const show = () => {
    root.dataset.theme = theme();
    const button = document.querySelector("[data-theme]:not(html)");
    if (button) button.textContent = theme() === "dark" ? "Light" : "Dark";
  };
  show();
  dark.addEventListener("change", show);
  // On a narrow screen the answer comes first.
  const fold = () => {
    if (!matchMedia("(max-width: 56rem)").matches) return;
    document.querySelectorAll(".filters > details[open]").forEach((one) => { one.open = false; });
  };
  document.addEventListener("DOMContentLoaded", () => { show(); fold(); });
  document.addEventListener("htmx:afterSettle", fold);

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.id === "theme") {
      localStorage.setItem("theme", theme() === "dark" ? "light" : "dark");
      show();
    } else if ("copies" in button.dataset) {
      const said = button.textContent;
      navigator.clipboard.writeText(button.dataset.copies).then(
        () => { button.textContent = "Copied"; setTimeout(() => { button.textContent = said; }, 1500); },
        () => { button.textContent = "Select it and press Ctrl+C"; },
      );
    } else if ("resets" in button.dataset) {
      const sliders = button.closest("section").querySelectorAll("input[type=range]");
      sliders.forEach((one) => { one.value = one.dataset.own; tell(one); });
      if (sliders.length) sliders[0].dispatchEvent(new Event("input", { bubbles: true }));
    }
  });

  const tell = (slider) => {
    const output = slider.parentElement.querySelector("output");
    if (output) output.textContent = Number(slider.value).toFixed(2);
  };
  document.addEventListener("input", (event) => { if (event.target.type === "range") tell(event.target); });
  document.addEventListener("change", (event) => {
    if ("submits" in event.target.dataset) event.target.form.submit();
  });
  document.addEventListener("htmx:configRequest", (event) => {
    // A new question, or another filter, starts at the first page.
    if (event.detail.elt.id === "ask") delete event.detail.parameters.after;
  });
  const unreachable = () => {
    const notice = document.getElementById("notice");
    if (!notice) return;
    const box = document.createElement("div");
    box.className = "problem";
    box.setAttribute("role", "alert");
    box.textContent = "The service does not answer. Is it running? Try again in a moment.";
    notice.replaceChildren(box);
  };
  document.addEventListener("htmx:sendError", unreachable);
  document.addEventListener("htmx:timeout", unreachable);
  document.addEventListener("htmx:afterOnLoad", (event) => {
    if (event.detail.xhr.status < 400) document.getElementById("notice")?.replaceChildren();
  });
})();
