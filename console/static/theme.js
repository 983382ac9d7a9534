// Before the first paint: the theme that was chosen here, else the system's.
(() => {
  const wanted = window.matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => { try { return localStorage.getItem("weir-theme"); } catch { return null; } };
  const apply = () => {
    const theme = chosen() || (wanted.matches ? "dark" : "light");
    document.documentElement.setAttribute("data-bs-theme", theme);
    document.dispatchEvent(new CustomEvent("weir:theme", { detail: theme }));
  };
  apply();
  wanted.addEventListener("change", apply);
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-theme-switch]")) return;
    const dark = document.documentElement.getAttribute("data-bs-theme") === "dark";
    try { localStorage.setItem("weir-theme", dark ? "light" : "dark"); } catch { /* private mode */ }
    document.documentElement.setAttribute("data-bs-theme", dark ? "light" : "dark");
    document.dispatchEvent(new CustomEvent("weir:theme"));
  });
})();
