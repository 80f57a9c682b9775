//! The forward pass: close to candle's, and its bits a function of the tokens alone.

use std::collections::HashMap;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use candle_core::quantized::gguf_file::{self, Content, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use candle_transformers::models::quantized_llama::ModelWeights;
use quillmate_server::hex::hex;
use quillmate_server::model::kernels::Isa;
use quillmate_server::model::llama::{Llama, read_head};
use quillmate_server::model::smollm2::{Progress, SmolLm2};
use quillmate_server::model::{LanguageModel, ModelError, Session};
use sha2::{Digest, Sha256};

use crate::support::model_file;

const VOCAB: usize = 49_152;

fn load(path: &Path, isa: Isa) -> Arc<Llama> {
    let bytes = std::fs::read(path).unwrap();
    Arc::new(Llama::load(&read_head(&bytes).unwrap(), &bytes, VOCAB, isa).unwrap())
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end as u64) as usize
    }

    fn tokens(&mut self, count: usize, vocab: usize) -> Vec<u32> {
        (0..count).map(|_| self.below(vocab) as u32).collect()
    }
}

fn bits(row: &[f32]) -> Vec<u32> {
    row.iter().map(|logit| logit.to_bits()).collect()
}

fn best(row: &[f32]) -> u32 {
    row.iter().enumerate().fold(0, |best, (at, &logit)| if logit > row[best] { at } else { best }) as u32
}

/// Candle's forward pass over the same file.
struct Candle {
    weights: ModelWeights,
    fed: usize,
}

impl Candle {
    fn load(file: &[u8]) -> Self {
        let mut reader = Cursor::new(file);
        let content = Content::read(&mut reader).unwrap();
        Self { weights: ModelWeights::from_gguf(content, &mut reader, &Device::Cpu).unwrap(), fed: 0 }
    }

    /// With the weights in f32, so that activations are not quantized.
    fn exact(file: &[u8]) -> Self {
        let mut reader = Cursor::new(file);
        let content = Content::read(&mut reader).unwrap();
        let names: Vec<&String> = content.tensor_infos.keys().collect();
        let tensors: Vec<QTensor> = names
            .iter()
            .map(|name| {
                let tensor = content.tensor(&mut reader, name, &Device::Cpu).unwrap().dequantize(&Device::Cpu).unwrap();
                QTensor::quantize(&tensor, GgmlDType::F32).unwrap()
            })
            .collect();
        let metadata: Vec<(&str, &Value)> = content
            .metadata
            .iter()
            .filter(|(key, _)| key.starts_with("llama."))
            .map(|(key, value)| (key.as_str(), value))
            .collect();
        let tensors: Vec<(&str, &QTensor)> = names.iter().map(|name| name.as_str()).zip(&tensors).collect();
        let mut written = Cursor::new(Vec::new());
        gguf_file::write(&mut written, &metadata, &tensors).unwrap();
        Self::load(&written.into_inner())
    }

    fn feed(&mut self, tokens: &[u32]) -> Vec<f32> {
        let input = Tensor::new(tokens, &Device::Cpu).unwrap().unsqueeze(0).unwrap();
        let row = self.weights.forward(&input, self.fed).unwrap().squeeze(0).unwrap();
        self.fed += tokens.len();
        row.to_vec1().unwrap()
    }
}

/// "The lighthouse keeper had not seen a ship in eleven days. On the twelfth, "
const PROMPT: [u32; 18] =
    [504, 27561, 13034, 1128, 441, 3042, 253, 7060, 281, 32126, 2022, 30, 1913, 260, 654, 25525, 28, 216];

/// The greatest and the root mean square of many differences.
#[derive(Debug, Default)]
struct Distance {
    greatest: f32,
    squares: f64,
    count: f64,
}

impl Distance {
    fn add(&mut self, a: &[f32], b: &[f32]) {
        for (a, b) in a.iter().zip(b) {
            let difference = (a - b).abs();
            self.greatest = if difference > self.greatest { difference } else { self.greatest };
            self.squares += f64::from(difference) * f64::from(difference);
            self.count += 1.0;
        }
    }

    fn rms(&self) -> f64 {
        (self.squares / self.count).sqrt()
    }
}

/// How far the best logit leads.
fn lead(row: &[f32]) -> f32 {
    let mut sorted = row.to_vec();
    sorted.sort_by(f32::total_cmp);
    sorted[sorted.len() - 1] - sorted[sorted.len() - 2]
}

/// Two kinds of rounding are between ours and candle's: of activations to 8 bits, which both do, each in its way, and of
/// f32. So the measure is candle with the same weights in f32, and neither quantized pass may be farther from it than the
/// other by much.
#[test]
fn logits_are_as_close_to_exact_ones_as_those_of_candle() {
    let Some(path) = model_file() else { return };
    let file = std::fs::read(&path).unwrap();
    let (mut exact, mut candle) = (Candle::exact(&file), Candle::load(&file));
    let mut ours = load(&path, Isa::detect()).open();
    let mut row = exact.feed(&PROMPT);
    let mut others = [candle.feed(&PROMPT), ours.prefill(&PROMPT).unwrap()];
    let mut distances: [Distance; 2] = Default::default();
    let mut same = 0;
    for step in 0..40 {
        let token = best(&row);
        for (distance, other) in distances.iter_mut().zip(&others) {
            distance.add(&row, other);
        }
        let lead = lead(&row);
        same += i32::from(best(&others[1]) == token);
        assert!(best(&others[1]) == token || lead < 0.5, "step {step}: another token, despite a lead of {lead}");
        row = exact.feed(&[token]);
        others = [candle.feed(&[token]), ours.feed(token).unwrap()];
    }
    let [candle, ours] = distances;
    for (name, distance) in [("candle", &candle), ("ours", &ours)] {
        eprintln!("{name}, from exact logits: rms {:.4}, at most {:.3}", distance.rms(), distance.greatest);
    }
    eprintln!("the same best token in {same} of 40 steps");
    assert!(same >= 38 && ours.rms() < 0.3 && ours.greatest < 1.5 && ours.rms() < 1.15 * candle.rms());
}

/// Takes tokens in random pieces, by every kind of move, and compares each row there is.
fn check_moves(model: &Arc<Llama>, tokens: &[u32], rows: &[Vec<u32>], random: &mut Random) {
    let all = |given: Vec<Vec<f32>>| given.iter().map(|row| bits(row)).collect::<Vec<_>>();
    let mut session: Box<dyn Session> = Box::new(model.open());
    let mut at = 0;
    while at < tokens.len() {
        let end = (at + 1 + random.below(9)).min(tokens.len());
        at = match random.below(5) {
            0 => {
                assert_eq!(bits(&session.feed(tokens[at]).unwrap()), rows[at]);
                at + 1
            }
            1 => {
                assert_eq!(bits(&session.prefill(&tokens[..end]).unwrap()), rows[end - 1]);
                end
            }
            2 => {
                // Drafts that are taken back, some of the right tokens with them.
                let drafts = [&tokens[at..end], &[11, 12, 13]].concat();
                assert_eq!(all(session.extend(&drafts).unwrap())[..end - at], rows[at..end]);
                let keep = at + random.below(end - at + 1);
                session.truncate(keep);
                keep
            }
            3 => {
                // Its fork goes on, it goes elsewhere and comes to nothing.
                let fork = session.fork();
                session.extend(&[3, 4, 5, 6]).unwrap();
                session = fork;
                assert_eq!(all(session.extend(&tokens[at..end]).unwrap()), rows[at..end]);
                end
            }
            _ => {
                assert_eq!(all(session.extend(&tokens[at..end]).unwrap()), rows[at..end]);
                end
            }
        };
    }
}

fn rows(model: &Arc<Llama>, tokens: &[u32]) -> Vec<Vec<u32>> {
    model.open().extend(tokens).unwrap().iter().map(|row| bits(row)).collect()
}

/// Runs something in pools of several sizes.
fn in_pools(run: impl Fn(usize) + Sync) {
    for threads in [1, 2, 5] {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(|| run(threads));
    }
}

#[test]
fn logits_depend_on_the_tokens_and_on_nothing_else() {
    let Some(path) = model_file() else { return };
    let model = load(&path, Isa::detect());
    let mut random = Random(60);
    // More than are taken through a layer together, and over pages' ends.
    let tokens = random.tokens(75, VOCAB);
    let expected = rows(&model, &tokens);
    in_pools(|threads| {
        assert_eq!(rows(&model, &tokens), expected, "{threads} threads");
        let mut random = Random(threads as u64);
        for _ in 0..3 {
            check_moves(&model, &tokens[..60], &expected, &mut random);
        }
    });
    let mut one_by_one = model.open();
    for (token, expected) in tokens.iter().zip(&expected) {
        assert_eq!(bits(&one_by_one.feed(*token).unwrap()), *expected);
    }
    assert_eq!(bits(&model.open().prefill(&tokens).unwrap()), expected[74]);
    // Without the processor's better instructions.
    assert_eq!(rows(&load(&path, Isa::plain()), &tokens[..8]), expected[..8]);
}

#[test]
fn logits_are_those_that_were_written_down() {
    let Some(path) = model_file() else { return };
    // Of this implementation, so that a change of its arithmetic is noticed: then ARITHMETIC must change as well.
    let row = load(&path, Isa::detect()).open().prefill(&PROMPT).unwrap();
    let bytes: Vec<u8> = row.iter().flat_map(|logit| logit.to_le_bytes()).collect();
    let digest = hex(&<sha2::Sha256 as sha2::Digest>::digest(bytes));
    assert_eq!(digest, "62cf4199691ae9eeba41db8321e4ed0e83e2443225cd4c1350a48ab9d2e76ef3");
}

/// A llama of two layers with random weights, as a GGUF file.
struct Small {
    metadata: HashMap<&'static str, Value>,
    tensors: HashMap<String, QTensor>,
}

const SMALL_VOCAB: usize = 83;

fn tensor(shape: &[usize], dtype: GgmlDType, random: &mut Random) -> QTensor {
    let count = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|_| random.below(2001) as f32 / 1000.0 - 1.0).collect();
    QTensor::quantize(&Tensor::from_vec(values, shape, &Device::Cpu).unwrap(), dtype).unwrap()
}

impl Small {
    fn new() -> Self {
        let mut random = Random(5);
        let metadata = [
            ("general.architecture", Value::String("llama".into())),
            ("llama.context_length", Value::U32(100)),
            ("llama.embedding_length", Value::U32(256)),
            ("llama.feed_forward_length", Value::U32(96)),
            ("llama.attention.head_count", Value::U32(4)),
            ("llama.attention.head_count_kv", Value::U32(2)),
            ("llama.block_count", Value::U32(2)),
            ("llama.rope.dimension_count", Value::U32(64)),
            ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
            ("llama.rope.freq_base", Value::F32(10_000.0)),
        ];
        let mut tensors = HashMap::new();
        let mut add = |name: String, shape: &[usize], dtype| tensors.insert(name, tensor(shape, dtype, &mut random));
        for block in 0..2 {
            for (part, shape, dtype) in [
                ("attn_norm", &[256][..], GgmlDType::F32),
                ("attn_q", &[256, 256], GgmlDType::Q4_1),
                ("attn_k", &[128, 256], GgmlDType::Q4_0),
                ("attn_v", &[128, 256], GgmlDType::Q8_0),
                ("attn_output", &[256, 256], GgmlDType::Q4_0),
                ("ffn_norm", &[256], GgmlDType::F32),
                ("ffn_gate", &[96, 256], GgmlDType::Q8_0),
                ("ffn_up", &[96, 256], GgmlDType::Q4_1),
                ("ffn_down", &[256, 96], GgmlDType::Q8_0),
            ] {
                add(format!("blk.{block}.{part}.weight"), shape, dtype);
            }
        }
        add("output_norm.weight".into(), &[256], GgmlDType::F32);
        add("token_embd.weight".into(), &[SMALL_VOCAB, 256], GgmlDType::Q4_1);
        add("output.weight".into(), &[SMALL_VOCAB, 256], GgmlDType::Q8_0);
        Self { metadata: HashMap::from(metadata), tensors }
    }

    fn file(&self) -> Vec<u8> {
        let mut metadata: Vec<(&str, &Value)> = self.metadata.iter().map(|(key, value)| (*key, value)).collect();
        metadata.sort_by_key(|&(key, _)| key);
        let mut tensors: Vec<(&str, &QTensor)> =
            self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
        tensors.sort_by_key(|&(name, _)| name);
        let mut file = Cursor::new(Vec::new());
        gguf_file::write(&mut file, &metadata, &tensors).unwrap();
        file.into_inner()
    }

    fn load(&self) -> Result<Arc<Llama>, ModelError> {
        load_small(&self.file())
    }

    fn with(mut self, key: &'static str, value: Value) -> Self {
        self.metadata.insert(key, value);
        self
    }

    fn with_tensor(mut self, name: &str, shape: &[usize], dtype: GgmlDType) -> Self {
        self.tensors.insert(name.into(), tensor(shape, dtype, &mut Random(6)));
        self
    }

    /// With a vocabulary: a token that ends a text, printable characters, and one pair of them.
    fn with_tokenizer(self) -> Self {
        let text = |text: String| Value::String(text);
        let characters = (b'!'..).take(SMALL_VOCAB - 2).map(|byte| char::from(byte).to_string());
        let tokens = ["<|endoftext|>".to_owned()].into_iter().chain(characters).chain(["ab".to_owned()]);
        let types = (0..SMALL_VOCAB).map(|id| Value::I32(if id == 0 { 3 } else { 1 }));
        self.with("tokenizer.ggml.model", text("gpt2".into()))
            .with("tokenizer.ggml.pre", text("smollm".into()))
            .with("tokenizer.ggml.tokens", Value::Array(tokens.map(text).collect()))
            .with("tokenizer.ggml.token_type", Value::Array(types.collect()))
            .with("tokenizer.ggml.merges", Value::Array(vec![text("a b".into())]))
            .with("tokenizer.ggml.eos_token_id", Value::U32(0))
    }

    /// Loads it as the server does.
    fn serve(&self) -> Result<SmolLm2, ModelError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        let bytes = self.file();
        std::fs::write(file.path(), &bytes).unwrap();
        SmolLm2::load(file.path(), &hex(&Sha256::digest(&bytes)), &Progress::default())
    }

    fn without(mut self, name: &str) -> Self {
        self.metadata.remove(name);
        self.tensors.remove(name);
        self
    }
}

#[test]
fn special_ids_must_be_tokens() {
    let model = Small::new().with_tokenizer().serve().unwrap();
    assert_eq!((model.identity().vocab as usize, model.end_tokens()), (SMALL_VOCAB, &[0][..]));
    let last = SMALL_VOCAB as u32 - 1;
    assert_eq!(Small::new().with_tokenizer().with(EOS, Value::U32(last)).serve().unwrap().end_tokens(), [0, last]);
    const EOS: &str = "tokenizer.ggml.eos_token_id";
    for (key, value) in [
        (EOS, Value::U32(SMALL_VOCAB as u32)),
        (EOS, Value::U32(u32::MAX)),
        (EOS, Value::U64(1 << 32)),
        (EOS, Value::I32(-1)),
        (EOS, Value::String("0".into())),
        ("tokenizer.ggml.bos_token_id", Value::U32(SMALL_VOCAB as u32)),
        ("tokenizer.ggml.padding_token_id", Value::I64(-1)),
        ("tokenizer.ggml.unknown_token_id", Value::U32(100_000)),
    ] {
        let error = Small::new().with_tokenizer().with(key, value).serve().err().expect(key);
        assert_eq!(error.code(), "model_unsupported");
        assert!(error.to_string().contains(key), "{error}");
    }
    let error = Small::new().with_tokenizer().without(EOS).serve().err().unwrap();
    assert!(error.to_string().contains("eos_token_id is missing"), "{error}");
}

fn load_small(file: &[u8]) -> Result<Arc<Llama>, ModelError> {
    Llama::load(&read_head(file)?, file, SMALL_VOCAB, Isa::detect()).map(Arc::new)
}

#[test]
fn a_small_llama_of_every_format_has_the_same_bits_however_it_is_fed() {
    let small = Small::new();
    let model = small.load().unwrap();
    let mut random = Random(9);
    let tokens = random.tokens(80, SMALL_VOCAB);
    let expected = rows(&model, &tokens);
    in_pools(|threads| {
        let mut random = Random(threads as u64);
        for _ in 0..100 {
            check_moves(&model, &tokens, &expected, &mut random);
        }
    });
    let file = small.file();
    let plain = Arc::new(Llama::load(&read_head(&file).unwrap(), &file, SMALL_VOCAB, Isa::plain()).unwrap());
    assert_eq!(rows(&plain, &tokens), expected);

    // At the ends: nothing to add, too much, unknown tokens; none of it leaves a trace.
    let mut session = model.open();
    assert!(session.extend(&[]).unwrap().is_empty());
    assert!(session.prefill(&[]).is_err());
    session.extend(&tokens[..5]).unwrap();
    assert!(session.extend(&[1, 2, SMALL_VOCAB as u32]).is_err());
    assert!(session.extend(&[1; 96]).is_err());
    assert!(session.extend(&vec![1; 1 << 20]).is_err());
    session.truncate(5);
    session.truncate(6);
    session.truncate(usize::MAX);
    assert_eq!(bits(&session.feed(tokens[5]).unwrap()), expected[5]);
    session.extend(&[1; 94]).unwrap();
    assert!(session.feed(1).is_err());
}

#[test]
fn a_file_that_is_no_such_llama_is_refused_by_what_is_wrong() {
    let refused = |small: Small, what: &str| {
        let error = small.load().err().unwrap_or_else(|| panic!("not refused: {what}"));
        assert_eq!(error.code(), "model_unsupported");
        assert!(error.to_string().contains(what), "{error}; {what}");
    };
    let text = |text: &str| Value::String(text.into());
    refused(Small::new().without("general.architecture"), "general.architecture");
    refused(Small::new().with("general.architecture", text("qwen2")), "qwen2");
    refused(Small::new().with("llama.rope.scaling.type", text("yarn")), "yarn");
    for key in ["context_length", "embedding_length", "feed_forward_length", "attention.head_count", "block_count"] {
        let key: &'static str = format!("llama.{key}").leak();
        refused(Small::new().without(key), key);
        for value in [Value::U32(0), Value::U64(u64::MAX), Value::I32(-1), text("8"), Value::F32(1.0)] {
            refused(Small::new().with(key, value), key);
        }
    }
    refused(Small::new().with("llama.attention.head_count", Value::U32(3)), "3 heads");
    refused(Small::new().with("llama.attention.head_count", Value::U32(8)), "multiple of 64");
    refused(Small::new().with("llama.attention.head_count_kv", Value::U32(3)), "over 3");
    refused(Small::new().with("llama.feed_forward_length", Value::U32(97)), "97");
    refused(Small::new().with("llama.rope.dimension_count", Value::U32(32)), "rope.dimension_count");
    refused(Small::new().with("llama.attention.layer_norm_rms_epsilon", Value::F32(f32::NAN)), "epsilon");
    refused(Small::new().with("llama.rope.freq_base", Value::F32(f32::INFINITY)), "freq_base");
    refused(Small::new().with("llama.block_count", Value::U32(3)), "tensor blk.2.attn_q.weight is missing");
    refused(Small::new().with("llama.block_count", Value::U32(1)), "blk.1.attn_k.weight is not used");
    refused(Small::new().without("output_norm.weight"), "tensor output_norm.weight is missing");
    refused(Small::new().with_tensor("rope_freqs.weight", &[32], GgmlDType::F32), "rope_freqs.weight");
    refused(Small::new().with_tensor("blk.0.attn_q.bias", &[256], GgmlDType::F32), "blk.0.attn_q.bias");
    refused(
        Small::new().with_tensor("token_embd.weight", &[84, 256], GgmlDType::Q8_0),
        "[84, 256], expected [83, 256]",
    );
    refused(Small::new().with_tensor("blk.0.attn_q.weight", &[256, 256], GgmlDType::Q6K), "blk.0.attn_q.weight is Q6K");
    refused(Small::new().with_tensor("blk.0.ffn_down.weight", &[256, 96], GgmlDType::F16), "ffn_down.weight is F16");
    refused(Small::new().with_tensor("blk.1.ffn_norm.weight", &[256], GgmlDType::F16), "ffn_norm.weight is F16");
    // Divided by, in the reader.
    refused(Small::new().with("general.alignment", Value::U32(0)), "");
    refused(Small::new().with("general.alignment", Value::U32(u32::MAX)), "is not within the file");

    // Cut anywhere, and with any byte changed: an error or a model, never a panic.
    let file = Small::new().file();
    for cut in (0..file.len()).step_by(997).chain(0..400) {
        assert!(load_small(&file[..cut]).is_err(), "cut at {cut}");
    }
    let mut random = Random(8);
    for _ in 0..300 {
        let mut damaged = file.clone();
        damaged[random.below(2500)] = random.below(256) as u8;
        let _ = load_small(&damaged);
    }
}

/// Not a test: `cargo test --release -p quillmate-server beside_candle -- --ignored --nocapture` with QUILLMATE_MODEL.
#[test]
#[ignore = "a measurement"]
fn speed_beside_candle() {
    let Some(path) = model_file() else { return };
    let file = std::fs::read(&path).unwrap();
    let mut candle = Candle::load(&file);
    let model = load(&path, Isa::detect());
    let mut ours = model.open();
    candle.feed(&PROMPT);
    ours.prefill(&PROMPT).unwrap();
    let mut random = Random(3);
    let mut times: [Vec<f64>; 3] = Default::default();
    let timed = |times: &mut Vec<f64>, run: &mut dyn FnMut()| {
        let began = std::time::Instant::now();
        run();
        times.push(began.elapsed().as_secs_f64() * 1000.0);
    };
    for _ in 0..100 {
        let tokens = random.tokens(5, VOCAB);
        timed(&mut times[0], &mut || drop(candle.feed(&tokens[..1])));
        let mut fork = ours.fork();
        timed(&mut times[1], &mut || drop(ours.feed(tokens[0]).unwrap()));
        fork.feed(1).unwrap();
        timed(&mut times[2], &mut || drop(fork.extend(&tokens).unwrap()));
    }
    for times in &mut times {
        times.sort_by(f64::total_cmp);
    }
    for (name, times) in ["candle, a step", "ours, a step", "ours, 5 positions"].iter().zip(&times) {
        println!("{name}: median {:.2} ms, tenth {:.2} ms, least {:.2} ms", times[50], times[10], times[0]);
    }
    for length in [128, 512, 2048] {
        let prompt = random.tokens(length, VOCAB);
        let mut times = Vec::new();
        for _ in 0..3 {
            timed(&mut times, &mut || drop(model.open().prefill(&prompt).unwrap()));
        }
        times.sort_by(f64::total_cmp);
        println!("ours, a prompt of {length}: {:.0} ms, {:.0} tokens/s", times[1], length as f64 / times[1] * 1000.0);
    }
    let mut candle = Candle::load(&file);
    let mut times = Vec::new();
    timed(&mut times, &mut || drop(candle.feed(&random.tokens(512, VOCAB))));
    println!("candle, a prompt of 512: {:.0} ms", times[0]);
}
