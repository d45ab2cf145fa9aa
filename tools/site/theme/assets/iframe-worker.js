/* A browser starts no worker for a page that was opened as a file. The search of the theme runs in one, so for such a
   page a worker is a hidden frame, which belongs to the page and may load scripts from beside it. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.title = "search";
      document.body.appendChild(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => queueMicrotask(() => this.tell(data));
      inside.importScripts = (...scripts) =>
        scripts.reduce((before, script) => before.then(() => this.load(script)), Promise.resolve());
      this.ready = this.load(address);
    }
    load(address) {
      const script = this.frame.contentDocument.createElement("script");
      script.src = address;
      const loaded = new Promise((done, failed) => {
        script.onload = done;
        script.onerror = failed;
      });
      this.frame.contentDocument.body.appendChild(script);
      return loaded;
    }
    tell(data) {
      const event = new MessageEvent("message", { data });
      this.onmessage?.(event);
      this.dispatchEvent(event);
    }
    postMessage(data) {
      const event = new MessageEvent("message", { data });
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(event));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
