// What HTML cannot say: the theme, what a slider stands at, copying, and which field takes what is dropped.
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
  // On a narrow screen the answer comes first; filters that were opened stay open.
  const filters = () => document.querySelector(".filters > details");
  let isOpen = !matchMedia("(max-width: 56rem)").matches;
  const fold = () => { if (filters()) filters().open = isOpen; };
  document.addEventListener("DOMContentLoaded", () => { show(); fold(); });
  document.addEventListener("htmx:beforeSwap", () => { if (filters()) isOpen = filters().open; });
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
  document.addEventListener("htmx:configRequest", (event) => {
    const { elt, parameters, verb } = event.detail;
    // A new question, or another filter, starts at the first page.
    if (elt.id === "ask") delete parameters.after;
    // A question names the weights that were moved alone; the others are saved as they are: browsers round them.
    document.querySelectorAll("input[type=range]").forEach((one) => {
      if (parameters[one.name] === undefined || Math.abs(one.value - one.dataset.own) > 1e-9) return;
      if (verb === "get") delete parameters[one.name];
      else parameters[one.name] = one.dataset.own;
    });
  });
  document.addEventListener("htmx:beforeRequest", (event) => {
    // Where the next comparison fails, the one before is not taken for its answer.
    if (event.detail.target.id === "compared") event.detail.target.replaceChildren();
  });
  // What is sent by a double click is sent once; htmx sees to its own forms.
  document.addEventListener("submit", (event) => {
    if (event.defaultPrevented || event.target.method !== "post") return;
    if (event.target.dataset.isSent) event.preventDefault();
    event.target.dataset.isSent = "yes";
  });
  const say = (text) => {
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
    const isFolder = [...event.dataTransfer.items].some((one) => one.webkitGetAsEntry()?.isDirectory);
    document.getElementById("notice")?.replaceChildren();
    if (isFolder && !field.webkitdirectory) {
      event.preventDefault();
      say("This field takes files. Drop a folder on the field for folders.");
    } else if (!isFolder && field.webkitdirectory) {
      event.preventDefault();
      document.getElementById("files").files = event.dataTransfer.files;
    }
  });
  const unreachable = () => say("The service does not answer. Is it running? Try again in a moment.");
  document.addEventListener("htmx:sendError", unreachable);
  document.addEventListener("htmx:timeout", unreachable);
  document.addEventListener("htmx:afterOnLoad", (event) => {
    if (event.detail.xhr.status < 400) document.getElementById("notice")?.replaceChildren();
  });
})();
