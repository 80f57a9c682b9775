// TextEncoder and TextDecoder for the CommonJS form, as far as wasm-bindgen's script uses them. jsdom lacks both, and Jest
// runs the CommonJS form in it.

class Encoder {
  encode(text) {
    // A lone surrogate becomes U+FFFD, as in the standard.
    const escaped = encodeURIComponent(text.replace(/\p{Surrogate}/gu, "\ufffd"));
    const units = escaped.match(/%..|./g) ?? [];
    return Uint8Array.from(units, (unit) => (unit.length === 3 ? parseInt(unit.slice(1), 16) : unit.charCodeAt(0)));
  }
}

class Decoder {
  /** All of `bytes`, which are well-formed: they come from Rust's strings. */
  decode(bytes = new Uint8Array()) {
    let escaped = "";
    for (const byte of bytes) escaped += `%${byte.toString(16).padStart(2, "0")}`;
    return decodeURIComponent(escaped);
  }
}

const { TextEncoder = Encoder, TextDecoder = Decoder } = globalThis;
export { TextDecoder, TextEncoder };
