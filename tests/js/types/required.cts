// From CommonJS.
import sampler = require("@quillmate/sampler");
import slim = require("@quillmate/sampler/slim");

const token: number = sampler.sampleToken(new Float32Array(1), {}, 0);
void sampler.default().then(() => slim.sampleToken(new Float32Array(1), {}, 0) === token);
