// Behaviour beyond HTML: the theme, the values of sliders, copying, and dropping files on the right field.
(function () {
  "use strict";
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => localStorage.getItem("theme") || (dark.matches ? "dark" : "light");
  const applyTheme = () => {
    root.dataset.theme = theme();
    const button = document.querySelector("[data-theme]:not(html)");
    if (button) button.textContent = theme() === "dark" ? "Light" : "Dark";
  };
  applyTheme();
  dark.addEventListener("change", applyTheme);
  // On a narrow screen the filters are closed at first; open filters stay open.
  const filters = () => document.querySelector(".filters > details");
  let isOpen = !matchMedia("(max-width: 56rem)").matches;
  const fold = () => { if (filters()) filters().open = isOpen; };
  document.addEventListener("DOMContentLoaded", () => { applyTheme(); fold(); });
  document.addEventListener("htmx:beforeSwap", () => { if (filters()) isOpen = filters().open; });
  document.addEventListener("htmx:afterSettle", fold);

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.id === "theme") {
      localStorage.setItem("theme", theme() === "dark" ? "light" : "dark");
      applyTheme();
    } else if ("copies" in button.dataset) {
      const label = button.textContent;
      navigator.clipboard.writeText(button.dataset.copies).then(
        () => { button.textContent = "Copied"; setTimeout(() => { button.textContent = label; }, 1500); },
        () => { button.textContent = "Select it and press Ctrl+C"; },
      );
    } else if ("resets" in button.dataset) {
      const sliders = button.closest("section").querySelectorAll("input[type=range]");
      sliders.forEach((slider) => { slider.value = slider.dataset.own; showValue(slider); });
      if (sliders.length) sliders[0].dispatchEvent(new Event("input", { bubbles: true }));
    }
  });

  const showValue = (slider) => {
    const output = slider.parentElement.querySelector("output");
    if (output) output.textContent = Number(slider.value).toFixed(2);
  };
  document.addEventListener("input", (event) => { if (event.target.type === "range") showValue(event.target); });
  document.addEventListener("htmx:configRequest", (event) => {
    const { elt, parameters, verb } = event.detail;
    // A new question, or another filter, starts at the first page.
    if (elt.id === "ask") delete parameters.after;
    // A search sends only changed weights; what ranks with them or saves them sends the exact values of the others too,
    // which browsers round: the profile may have changed since the page was loaded.
    document.querySelectorAll("input[type=range]").forEach((slider) => {
      if (parameters[slider.name] === undefined || Math.abs(slider.value - slider.dataset.own) > 1e-9) return;
      if (verb === "get" && !elt.matches(".sliders")) delete parameters[slider.name];
      else parameters[slider.name] = slider.dataset.own;
    });
  });
  document.addEventListener("htmx:beforeRequest", (event) => {
    // Remove the former comparison, so that it is not mistaken for the answer if the next one fails.
    if (event.detail.target.id === "compared") event.detail.target.replaceChildren();
  });
  // A double click submits a form once; htmx does the same for its own forms.
  document.addEventListener("submit", (event) => {
    if (event.defaultPrevented || event.target.method !== "post") return;
    if (event.target.dataset.isSent) event.preventDefault();
    event.target.dataset.isSent = "yes";
  });
  // The browser's Back restores the page as it was left: its forms can be sent again.
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) document.querySelectorAll("form").forEach((form) => delete form.dataset.isSent);
  });
  const showProblem = (text) => {
    const notice = document.getElementById("notice");
    if (!notice) return;
    const box = document.createElement("div");
    box.className = "problem";
    box.setAttribute("role", "alert");
    box.textContent = text;
    notice.replaceChildren(box);
  };
  document.addEventListener("drop", (event) => {
    const field = event.target;
    if (field.type !== "file") return;
    const isFolder = [...event.dataTransfer.items].some((entry) => entry.webkitGetAsEntry()?.isDirectory);
    document.getElementById("notice")?.replaceChildren();
    if (isFolder && !field.webkitdirectory) {
      event.preventDefault();
      showProblem("This field takes files. Drop a folder on the field for folders.");
    } else if (!isFolder && field.webkitdirectory) {
      event.preventDefault();
      document.getElementById("files").files = event.dataTransfer.files;
    }
  });
  const unreachable = () => showProblem("The service does not answer. Is it running? Try again in a moment.");
  document.addEventListener("htmx:sendError", unreachable);
  document.addEventListener("htmx:timeout", unreachable);
  document.addEventListener("htmx:afterOnLoad", (event) => {
    if (event.detail.xhr.status < 400) document.getElementById("notice")?.replaceChildren();
  });
})();
