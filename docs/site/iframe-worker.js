// Pages that are opened from the disk may start no worker, so the one that searches runs in a hidden frame there. The
// theme would fetch such a stand-in from elsewhere.
if (location.protocol === "file:")
  window.Worker = window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe"),
        address = new URL(url, location.href).href;
      frame.hidden = true;
      document.body.append(frame);
      const inner = frame.contentWindow,
        load = (source) =>
          new Promise((done, failed) => {
            const script = inner.document.createElement("script");
            script.src = new URL(source, address).href;
            script.onload = done;
            script.onerror = failed;
            inner.document.head.append(script);
          });
      inner.IFrameWorker = window.IFrameWorker;
      inner.importScripts = (...sources) => sources.reduce((before, each) => before.then(() => load(each)), Promise.resolve());
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.frame = frame;
      this.loaded = load(address);
      this.addEventListener("message", (event) => this.onmessage?.(event));
    }
    postMessage(data) {
      this.loaded.then(() => {
        const inner = this.frame.contentWindow;
        inner.dispatchEvent(new inner.MessageEvent("message", { data }));
      });
    }
    terminate() {
      this.frame.remove();
    }
  };
