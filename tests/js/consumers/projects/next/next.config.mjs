// The tools are installed above, as in a workspace; nothing here is about the package.
const root = process.env.TOOLS;
export default { turbopack: { root }, outputFileTracingRoot: root };
