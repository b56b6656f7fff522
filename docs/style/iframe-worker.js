/* Search without a server: browsers start no worker for a page that was opened as a file. Here a hidden frame takes the worker's place:
   it loads the worker's script, and messages are passed as events. Only pages opened as files use it. */
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const base = new URL(address, location.href);
      this.onmessage = null;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      const load = (url) =>
        new Promise((done, failed) => {
          const script = inside.document.createElement("script");
          script.src = url;
          script.onload = done;
          script.onerror = () => failed(new Error(`not loaded: ${url}`));
          inside.document.head.append(script);
        });
      inside.importScripts = (...urls) => urls.reduce((before, url) => before.then(() => load(new URL(url, base))), Promise.resolve());
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      this.ready = load(base);
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
