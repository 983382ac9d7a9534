// Copy buttons, and whether what is shown is live: parts come over a WebSocket by htmx.
(() => {
  const STALE_AFTER_MS = 6000;
  const WORDS = { connecting: "connecting", live: "live", stale: "stale, reconnecting", out: "signed out" };
  let heard = 0;

  const show = (state) => document.querySelectorAll(".live").forEach((mark) => {
    mark.dataset.live = state;
    mark.querySelector(".live-word").textContent = WORDS[state];
  });
  const hear = () => { heard = Date.now(); show("live"); };
  window.weirLive = { hear, show };

  // A part is not swapped under a pressed button or a selection; it is sent whole again soon.
  let pressed = false, focused = "";
  document.addEventListener("pointerdown", () => { pressed = true; });
  ["pointerup", "pointercancel"].forEach((name) => document.addEventListener(name, () => setTimeout(() => { pressed = false; }, 50)));
  document.addEventListener("htmx:wsBeforeMessage", (event) => {
    hear();
    focused = document.activeElement?.id || "";
    if (pressed || getSelection().type === "Range") event.preventDefault();
  });
  document.addEventListener("htmx:wsAfterMessage", () => {
    if (focused && !document.activeElement?.id) document.getElementById(focused)?.focus({ preventScroll: true });
  });
  document.addEventListener("htmx:wsClose", () => show("stale"));
  document.addEventListener("htmx:wsError", () => show("stale"));
  if (document.querySelector(".live")) {
    show("connecting");
    setInterval(() => { if (heard && Date.now() - heard > STALE_AFTER_MS) show("stale"); }, 1000);
  }

  // A log keeps to its end while its reader is at the end.
  let atEnd = true;
  document.addEventListener("htmx:wsBeforeMessage", () => {
    const log = document.querySelector(".log");
    atEnd = !log || log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  });
  const toEnd = () => { const log = document.querySelector(".log"); if (log && atEnd) log.scrollTop = log.scrollHeight; };
  document.addEventListener("htmx:oobAfterSwap", toEnd);
  toEnd();

  document.addEventListener("submit", (event) => {
    const question = event.submitter && event.submitter.dataset.confirm;
    if (question && !window.confirm(question)) event.preventDefault();
  });

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const text = document.querySelector(button.dataset.copy).textContent;
    try { await navigator.clipboard.writeText(text.trim()); }
    catch { // no clipboard without a secure context: select it, so that Ctrl-C takes it
      const range = document.createRange();
      range.selectNodeContents(document.querySelector(button.dataset.copy));
      getSelection().removeAllRanges(); getSelection().addRange(range);
      button.querySelector("span").textContent = "Selected: press Ctrl-C";
      return;
    }
    const word = button.querySelector("span");
    const before = word.textContent;
    word.textContent = "Copied";
    setTimeout(() => { word.textContent = before; }, 1500);
  });
})();
