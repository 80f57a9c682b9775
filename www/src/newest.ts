// Made by `make forms`.

/** The newest version of every processor's rule, in the usual order (CONTRACT.md, “Processors”). */
export const newest = {
  repetition_penalty: 1,
  frequency_penalty: 1,
  presence_penalty: 1,
  dry: 2,
  no_repeat_ngram: 1,
  bad_words: 1,
  logit_bias: 1,
  allow: 1,
  deny: 1,
  forced_prefix: 1,
  min_length: 1,
  forced_end: 1,
  temperature: 1,
  top_k: 1,
  top_p: 2,
  min_p: 1,
  typical: 2,
  epsilon: 1,
  eta: 1,
  top_n_sigma: 1,
  xtc: 1,
} as const;
