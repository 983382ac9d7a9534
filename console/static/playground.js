// The playground: asks over a WebSocket, shows the answer as it comes, and what it cost.
(() => {
  const page = document.getElementById("playground");
  if (!page) return;
  const form = page.querySelector("form"), talk = page.querySelector(".talk"), send = page.querySelector("[data-send]"), stop = page.querySelector("[data-stop]");
  const field = (name) => form.elements[name];
  let socket, messages = [], answer = null, retries = 0;

  const bubble = (role, text) => {
    const element = document.createElement("div");
    element.className = "bubble"; element.dataset.role = role;
    const body = document.createElement("div"); body.className = "bubble-text"; body.textContent = text;
    element.append(body);
    page.querySelector(".talk-empty")?.remove();
    talk.append(element); talk.scrollTop = talk.scrollHeight;
    return element;
  };
  const running = (value) => { send.disabled = value; stop.disabled = !value; page.dataset.running = value; };
  const figure = (label, value) => {
    const entry = document.createElement("span"), strong = document.createElement("strong");
    strong.textContent = value; entry.append(`${label} `, strong);
    return entry;
  };
  const seconds = (value) => value === null ? "–" : value < 1 ? `${Math.round(value * 1000)} ms` : `${value.toFixed(2)} s`;

  const heard = {
    start: () => {},
    text: ({ text }) => {
      const body = answer.element.querySelector(".bubble-text"), end = talk.scrollHeight - talk.scrollTop - talk.clientHeight < 60;
      answer.text += text; body.textContent = answer.text;
      if (end) talk.scrollTop = talk.scrollHeight;
    },
    end: (end) => {
      const list = document.createElement("div");
      list.className = "bubble-figures";
      const tokens = end.input_tokens === null ? `${end.output_tokens} out` : `${end.input_tokens} in, ${end.output_tokens} out`;
      list.append(figure("first token", seconds(end.ttft_seconds)), figure("tokens per second", end.tokens_per_second === null ? "–" : end.tokens_per_second.toFixed(1)),
        figure("tokens", tokens), figure("cost", end.cost || "–"), figure("ended by", end.finish_reason), figure("request", end.request_id || "–"));
      answer.element.append(list);
      messages.push({ role: "assistant", content: answer.text });
      answer = null; running(false); talk.scrollTop = talk.scrollHeight;
      page.dataset.answers = Number(page.dataset.answers) + 1;
    },
    error: ({ message }) => {
      if (answer && !answer.text) answer.element.remove();
      bubble("error", message);
      answer = null; running(false);
    },
  };

  function connect() {
    socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${page.dataset.socket}`);
    socket.onopen = () => { retries = 0; page.dataset.connected = "true"; };
    socket.onmessage = (event) => { const message = JSON.parse(event.data); if (answer || message.type === "error") heard[message.type]?.(message); };
    socket.onclose = () => {
      page.dataset.connected = "false";
      if (answer) heard.error({ message: "The console's connection broke off. Ask again." });
      retries += 1;
      setTimeout(connect, Math.min(15000, 500 * 2 ** Math.min(retries, 5)));
    };
  }

  const conversation = () => {
    const system = field("system").value.trim();
    return [...(system ? [{ role: "system", content: system }] : []), ...messages];
  };
  const number = (name) => field(name).value === "" ? null : Number(field(name).value);

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = field("prompt").value.trim();
    if (!text || send.disabled) return;
    if (socket.readyState !== WebSocket.OPEN) { bubble("error", "The console is reconnecting: try again in a moment."); return; }
    messages.push({ role: "user", content: text });
    bubble("user", text);
    answer = { text: "", element: bubble("assistant", "") };
    running(true);
    socket.send(JSON.stringify({ type: "ask", route: field("route").value, messages: conversation(), temperature: number("temperature") ?? 1, max_tokens: number("max_tokens") }));
    field("prompt").value = "";
  });
  field("prompt").addEventListener("keydown", (event) => { if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); form.requestSubmit(); } });
  stop.addEventListener("click", () => socket.send('{"type":"stop"}'));
  page.querySelector("[data-clear]").addEventListener("click", () => { if (answer) socket.send('{"type":"stop"}'); answer = null; messages = []; talk.replaceChildren(); running(false); });

  // The same call as code, with this form's values; the key stays the reader's to fill in.
  function code() {
    const url = `${location.protocol}//${location.hostname}:${page.dataset.gatewayPort}/v1`;
    const body = { model: field("route").value, messages: conversation(), temperature: number("temperature") ?? 1, stream: true };
    if (number("max_tokens")) body.max_tokens = number("max_tokens");
    if (!body.messages.some((message) => message.role === "user")) body.messages.push({ role: "user", content: field("prompt").value.trim() || "Hello" });
    const quoted = JSON.stringify(body, null, 2).replaceAll("'", "'\\''");
    document.getElementById("code-curl").textContent = `curl -N ${url}/chat/completions \\\n  -H "Authorization: Bearer $WEIR_KEY" \\\n  -H "Content-Type: application/json" \\\n  -d '${quoted}'`;
    const given = Object.entries(body).filter(([name]) => !["model", "messages", "stream"].includes(name)).map(([name, value]) => `, ${name}=${value}`).join("");
    document.getElementById("code-python").textContent = `import os\nfrom openai import OpenAI\n\nclient = OpenAI(base_url="${url}", api_key=os.environ["WEIR_KEY"])\nstream = client.chat.completions.create(\n    model=${JSON.stringify(body.model)},\n    messages=${JSON.stringify(body.messages)},\n    stream=True${given},\n)\nfor chunk in stream:\n    if chunk.choices:\n        print(chunk.choices[0].delta.content or "", end="", flush=True)`;
  }
  page.querySelector("[data-code]").addEventListener("toggle", code);
  form.addEventListener("input", code);
  running(false);
  connect();
})();
