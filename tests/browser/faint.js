// The texts of a page that stand out from their ground by less than 4.5 to 1 (WCAG AA).
// Colours are drawn to a canvas: so every notation of CSS is read as the browser paints it.
() => {
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data];
  };
  const over = (top, under) =>
    [0, 1, 2].map((i) => top[i] * top[3] / 255 + under[i] * (1 - top[3] / 255)).concat(255);
  const ground = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(rgba(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 255]);
  };
  const light = (colour) => {
    const [red, green, blue] = colour.slice(0, 3).map((value) =>
      value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const faint = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), element = walker.currentNode.parentElement;
    if (!text || !element.checkVisibility() || element.closest("[disabled], script")) continue;
    const under = ground(element), top = over(rgba(getComputedStyle(element).color), under);
    const [high, low] = [light(top), light(under)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) faint.add(`${text.slice(0, 30)} .${element.className} ${ratio.toFixed(2)}`);
  }
  return [...faint].slice(0, 10);
}
