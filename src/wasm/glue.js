// Prepended by scripts/pkg/glue.mjs to wasm-bindgen's output: errors with a code where wasm-bindgen throws plain ones or
// continues silently. They occur in JavaScript, before the wasm is called, so Rust cannot refuse them.

/** The error of every refusal, here and in the wasm. */
export class SamplerError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}
Object.defineProperty(SamplerError.prototype, "name", { value: "SamplerError", writable: true, configurable: true });

/** Stands for the wasm until it is loaded. */
const notInitialized = new Proxy(
  {},
  {
    get() {
      throw new SamplerError("not_initialized", "the wasm is not loaded yet; call init() and await it first");
    },
  },
);

// The pointer of an object is kept in a handle under a symbol, not in a property of its own: what copies properties
// (JSON.stringify, structuredClone) must not take it along, and it is found through a Proxy of the object too.
const HANDLE = Symbol("handle");
const copies = {
  Frame: "a Frame cannot be cloned, posted or copied, because its memory is the wasm's; send encode() and read it with Frame.decode",
  Generator:
    "a Generator cannot be cloned, posted or copied, because its memory is the wasm's; send state() and go on with Generator.fromState",
};

/** Sealed, because libraries that wrap objects in proxies skip sealed ones. */
class Handle {
  constructor(ptr, name) {
    Object.seal(Object.assign(this, { ptr, name }));
  }
}

function adopt(object, ptr, name, registry) {
  const handle = new Handle(ptr, name);
  Object.defineProperty(object, HANDLE, { value: handle });
  // structuredClone and postMessage read every enumerable property, and what one throws reaches their caller.
  Object.defineProperty(object, "_wasm", {
    get() {
      throw new SamplerError("not_cloneable", copies[name]);
    },
    enumerable: true,
  });
  registry.register(object, ptr, handle);
}

function handleOf(object, name) {
  const handle = Object(object)[HANDLE];
  // A Proxy may answer with anything.
  if (!(handle instanceof Handle) || handle.name !== name) {
    throw new SamplerError("receiver_type", `this method must be called on a ${name}`);
  }
  return handle;
}

function pointerOf(object, name) {
  const { ptr } = handleOf(object, name);
  if (ptr === 0) throw new SamplerError("freed", `this ${name} was freed`);
  return ptr;
}

function disown(object, name, registry) {
  const ptr = pointerOf(object, name);
  const handle = handleOf(object, name);
  handle.ptr = 0;
  registry.unregister(handle);
  return ptr;
}

/**
 * Another object on what one of these classes holds, to be given to the wasm, which takes it over; undefined for what is of
 * neither. It goes by the handle: a method of the object's own could give another's.
 */
function secondHandle(object) {
  let handle;
  try {
    handle = Object(object)[HANDLE];
  } catch {
    // A Proxy that refuses to be read.
  }
  if (!(handle instanceof Handle)) return undefined;
  const ptr = pointerOf(object, handle.name);
  return handle.name === "Frame" ? Frame.__wrap(wasm.frame__share(ptr)) : Generator.__wrap(wasm.generator__share(ptr));
}
