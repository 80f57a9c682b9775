import config from "./playwright.config";

// `scripts/picture` alone runs this: it writes docs/page.png.
export default { ...config, testMatch: "picture.ts" };
