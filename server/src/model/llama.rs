//! A llama from a GGUF file: the forward pass.
//!
//! **The logits after a context are a function of its token ids alone**, bit for bit: computed one at a time, all in one
//! pass or in any pieces, after a rejected draft was taken back, on one thread or many, beside whatever else. Every
//! number is made by one fixed sequence of operations ([`kernels`](super::kernels) says which); what a pass with several
//! positions shares is the reading of the weights, never a sum. The same file gives the same bits on any processor with
//! IEEE 754 arithmetic, as far as tested: nothing is taken from a platform's mathematical library. Other
//! implementations (candle, llama.cpp) give logits that are close and not equal; [`ARITHMETIC`] names this one.
//!
//! A pass, for each of its positions: the token's embedding; per layer RMS norm, query, key and value, rotary embedding of
//! pairs (2i, 2i + 1), attention over the positions so far (in groups of heads that share keys), output, residual; RMS
//! norm, silu(gate)·up, down, residual; in the end RMS norm and the output matrix, which is the embedding where the file
//! has no other. Matrices are quantized as in the file; what they are multiplied with is quantized to 8 bits in blocks of
//! 32, as ggml does it, with scales in f32. Keys, values and everything else are f32.
//!
//! Keys and values are kept in pages of 32 positions, shared between contexts until one of them writes: a fork costs a
//! pointer per page and copies one page at its first step.

use std::collections::BTreeSet;
use std::sync::Arc;

use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::{Content, TensorInfo, Value};
use rayon::prelude::*;

use super::error::ModelError;
use super::kernels::{
    Activations, BLOCK, Format, HEAD_UNIT, Isa, Matrix, PAGE, Place, add, attend, cos_sin, inverse_power, quantize,
    rms_norm, rotate, silu_gate,
};
use super::language_model::Session;

/// Names the arithmetic: change one bit of what it gives, change this.
pub const ARITHMETIC: &str = "quillmate-llama-1";

/// The longest context, whatever the file allows: keys and values of one take 46 kB per position in SmolLM2-135M.
const MAX_CONTEXT: usize = 4096;
/// Positions that go through a layer together. A longer pass is cut up, which changes nothing but its speed: weights are
/// then read from a cache, and room for the work stays small.
const POSITIONS: usize = 64;
/// Rows below which sharing them out among threads costs more than it gains, and keys (times positions) likewise.
const FEW: usize = 4;
const FEW_KEYS: usize = 64;

/// The weights of a model and its shape.
pub struct Llama {
    isa: Isa,
    context: usize,
    heads: usize,
    kv_heads: usize,
    head_size: usize,
    feed_forward: usize,
    epsilon: f64,
    /// (cos, sin) for every position and pair of dimensions.
    angles: Vec<(f32, f32)>,
    layers: Vec<Layer>,
    norm: Vec<f32>,
    /// `None` where the output matrix is the embedding too.
    embedding: Option<Matrix>,
    output: Matrix,
}

struct Layer {
    attention_norm: Vec<f32>,
    /// Query, key and value side by side.
    qkv: Matrix,
    attention_output: Matrix,
    feed_forward_norm: Vec<f32>,
    /// Gate and up side by side.
    gate_up: Matrix,
    down: Matrix,
}

/// Which positions of a pass get logits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rows {
    None,
    Last,
    All,
}

fn unsupported(message: impl Into<String>) -> ModelError {
    ModelError::Unsupported(message.into())
}

/// Tensors of a file, each checked as it is taken.
struct Tensors<'a> {
    content: &'a Content,
    bytes: &'a [u8],
    left: BTreeSet<&'a str>,
}

impl<'a> Tensors<'a> {
    fn has(&self, name: &str) -> bool {
        self.content.tensor_infos.contains_key(name)
    }

    /// A tensor's description and bytes; its shape must be the one given, rows first.
    fn take(&mut self, name: &str, shape: &[usize]) -> Result<(&'a TensorInfo, &'a [u8]), ModelError> {
        let refused = |reason: String| ModelError::Tensor { name: name.to_owned(), reason };
        let info = self.content.tensor_infos.get(name).ok_or_else(|| refused("is missing".into()))?;
        self.left.remove(name);
        let dims = info.shape.dims();
        if dims != shape {
            return Err(refused(format!("has shape {dims:?}, expected {shape:?}")));
        }
        let (block, size) = (info.ggml_dtype.block_size(), info.ggml_dtype.type_size());
        let values = shape.iter().try_fold(1_usize, |product, &dim| product.checked_mul(dim));
        let length = values.filter(|values| values.is_multiple_of(block)).and_then(|v| (v / block).checked_mul(size));
        let start = self.content.tensor_data_offset.checked_add(info.offset).and_then(|at| usize::try_from(at).ok());
        let bytes = start
            .zip(length)
            .and_then(|(start, length)| Some(start..start.checked_add(length)?))
            .and_then(|range| self.bytes.get(range))
            .ok_or_else(|| refused("is not within the file".into()))?;
        Ok((info, bytes))
    }

    fn matrix(&mut self, name: &str, columns: usize, width: usize) -> Result<Matrix, ModelError> {
        let (info, bytes) = self.take(name, &[columns, width])?;
        let refused = |reason: String| ModelError::Tensor { name: name.to_owned(), reason };
        let format = match info.ggml_dtype {
            GgmlDType::Q4_0 => Format::Q4_0,
            GgmlDType::Q4_1 => Format::Q4_1,
            GgmlDType::Q8_0 => Format::Q8_0,
            other => return Err(refused(format!("is {other:?}; matrices may be Q4_0, Q4_1 and Q8_0"))),
        };
        Matrix::pack(format, bytes, columns, width).map_err(|error| refused(error.to_string()))
    }

    fn vector(&mut self, name: &str, length: usize) -> Result<Vec<f32>, ModelError> {
        let (info, bytes) = self.take(name, &[length])?;
        let refused = |reason: String| ModelError::Tensor { name: name.to_owned(), reason };
        if info.ggml_dtype != GgmlDType::F32 {
            return Err(refused(format!("is {:?}; norms may be F32", info.ggml_dtype)));
        }
        let values: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|&value| f32::from_le_bytes(value)).collect();
        if let Some(at) = values.iter().position(|value| !value.is_finite()) {
            return Err(refused(format!("is not finite at {at}")));
        }
        Ok(values)
    }
}

/// Reads the head of a GGUF file.
pub fn read_head(bytes: &[u8]) -> Result<Content, ModelError> {
    // candle's reader checks lengths, and yet divides by whatever alignment the file names. What it panics at is a file
    // this server cannot run, like what it refuses.
    let read = std::panic::catch_unwind(|| Content::read(&mut std::io::Cursor::new(bytes)));
    match read {
        Ok(content) => content.map_err(|error| unsupported(error.to_string())),
        Err(_) => Err(unsupported("its head makes no sense")),
    }
}

impl Llama {
    /// Takes the weights out of a GGUF file, `content` being its head and `bytes` the whole of it, for a vocabulary of so
    /// many tokens. Whatever the file asks for that is not computed here is refused by name.
    pub fn load(content: &Content, bytes: &[u8], vocab: usize, isa: Isa) -> Result<Self, ModelError> {
        let value = |key: &str| {
            let key = format!("llama.{key}");
            content.metadata.get(&key).ok_or_else(|| unsupported(format!("{key} is missing")))
        };
        let number = |key: &str| {
            let number = value(key)?.to_u64().ok().and_then(|number| usize::try_from(number).ok());
            number
                .filter(|number| (1..=1 << 24).contains(number))
                .ok_or_else(|| unsupported(format!("llama.{key} is not a size")))
        };
        match content.metadata.get("general.architecture") {
            Some(Value::String(name)) if name == "llama" => {}
            other => return Err(unsupported(format!("general.architecture is {other:?}, not llama"))),
        }
        match content.metadata.get("llama.rope.scaling.type") {
            None => {}
            Some(Value::String(name)) if name == "none" => {}
            Some(other) => return Err(unsupported(format!("llama.rope.scaling.type is {other:?}"))),
        }
        let context = number("context_length")?.min(MAX_CONTEXT);
        let width = number("embedding_length")?;
        let feed_forward = number("feed_forward_length")?;
        let heads = number("attention.head_count")?;
        let kv_heads = match content.metadata.get("llama.attention.head_count_kv") {
            Some(_) => number("attention.head_count_kv")?,
            None => heads,
        };
        let blocks = number("block_count")?;
        let head_size = width / heads;
        if head_size * heads != width || !head_size.is_multiple_of(HEAD_UNIT) || !heads.is_multiple_of(kv_heads) {
            return Err(unsupported(format!(
                "{heads} heads over {kv_heads} in {width} dimensions; heads must be of a multiple of {HEAD_UNIT}"
            )));
        }
        if !feed_forward.is_multiple_of(BLOCK) {
            return Err(unsupported(format!(
                "llama.feed_forward_length {feed_forward} is not whole blocks of {BLOCK}"
            )));
        }
        for key in ["rope.dimension_count", "attention.key_length", "attention.value_length"] {
            if content.metadata.contains_key(&format!("llama.{key}")) && number(key)? != head_size {
                return Err(unsupported(format!("llama.{key} is not the {head_size} dimensions of a head")));
            }
        }
        let float = |key: &str| value(key)?.to_f32().map_err(|error| unsupported(error.to_string()));
        let epsilon = f64::from(float("attention.layer_norm_rms_epsilon")?);
        if !(epsilon > 0.0 && epsilon < 1.0) {
            return Err(unsupported(format!("llama.attention.layer_norm_rms_epsilon is {epsilon}")));
        }
        let base = match content.metadata.get("llama.rope.freq_base") {
            Some(_) => f64::from(float("rope.freq_base")?),
            None => 10_000.0,
        };
        if !(1.0..=1e12).contains(&base) {
            return Err(unsupported(format!("llama.rope.freq_base is {base}")));
        }

        let left = content.tensor_infos.keys().map(String::as_str).collect();
        let mut tensors = Tensors { content, bytes, left };
        let kv_width = kv_heads * head_size;
        let beside = |name: &str, matrices: Vec<Matrix>| {
            Matrix::beside(matrices)
                .ok_or_else(|| ModelError::Tensor { name: name.to_owned(), reason: "does not fit its like".into() })
        };
        let mut layers = Vec::new();
        for block in 0..blocks {
            let name = |part: &str| format!("blk.{block}.{part}.weight");
            let query = tensors.matrix(&name("attn_q"), width, width)?;
            let key = tensors.matrix(&name("attn_k"), kv_width, width)?;
            let value = tensors.matrix(&name("attn_v"), kv_width, width)?;
            let gate = tensors.matrix(&name("ffn_gate"), feed_forward, width)?;
            let up = tensors.matrix(&name("ffn_up"), feed_forward, width)?;
            layers.push(Layer {
                attention_norm: tensors.vector(&name("attn_norm"), width)?,
                qkv: beside(&name("attn_q"), vec![query, key, value])?,
                attention_output: tensors.matrix(&name("attn_output"), width, width)?,
                feed_forward_norm: tensors.vector(&name("ffn_norm"), width)?,
                gate_up: beside(&name("ffn_gate"), vec![gate, up])?,
                down: tensors.matrix(&name("ffn_down"), width, feed_forward)?,
            });
        }
        let norm = tensors.vector("output_norm.weight", width)?;
        let mut output = tensors.matrix("token_embd.weight", vocab, width)?;
        let mut embedding = None;
        if tensors.has("output.weight") {
            embedding = Some(std::mem::replace(&mut output, tensors.matrix("output.weight", vocab, width)?));
        }
        // Biases, experts, factors for the angles: a model that has them would be computed wrongly without.
        if let Some(name) = tensors.left.first() {
            return Err(ModelError::Tensor { name: (*name).to_owned(), reason: "is not used by a llama".into() });
        }
        // As in the reference implementation, frequencies and angles are rounded to f32.
        let frequencies: Vec<f32> =
            (0..head_size / 2).map(|pair| inverse_power(base, 2.0 * pair as f64 / head_size as f64) as f32).collect();
        let angles = (0..context)
            .flat_map(|position| frequencies.iter().map(move |&f| cos_sin(f64::from(position as f32 * f))))
            .collect();
        Ok(Self {
            isa,
            context,
            heads,
            kv_heads,
            head_size,
            feed_forward,
            epsilon,
            angles,
            layers,
            norm,
            embedding,
            output,
        })
    }

    /// Which instructions it computes with.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// The longest context.
    #[must_use]
    pub fn context(&self) -> usize {
        self.context
    }

    /// An empty context.
    #[must_use]
    pub fn open(self: &Arc<Self>) -> LlamaContext {
        LlamaContext { model: Arc::clone(self), pages: Vec::new(), fed: 0 }
    }

    fn width(&self) -> usize {
        self.heads * self.head_size
    }

    fn place(&self, layer: usize, kv_head: usize) -> Place {
        let size = self.head_size;
        Place { at: (layer * self.kv_heads + kv_head) * 2 * PAGE * size, size }
    }

    fn page(&self) -> Page {
        vec![0.0; self.layers.len() * self.kv_heads * 2 * PAGE * self.head_size]
    }

    /// Makes rows of `width` numbers from rows of `length` and quantizes them.
    fn quantized(
        &self,
        rows: &[f32],
        length: usize,
        width: usize,
        out: &mut Vec<Activations>,
        make: impl Fn(&[f32], &mut [f32]) + Sync,
    ) {
        out.resize(rows.len() / length * width / BLOCK, Activations::default());
        let each = |room: &mut Vec<f32>, row: &[f32], out: &mut [Activations]| {
            room.resize(width, 0.0);
            make(row, room);
            quantize(self.isa, room, out);
        };
        if rows.len() / length < FEW {
            let mut room = Vec::new();
            rows.chunks_exact(length)
                .zip(out.chunks_exact_mut(width / BLOCK))
                .for_each(|(row, out)| each(&mut room, row, out));
        } else {
            rows.par_chunks_exact(length)
                .zip(out.par_chunks_exact_mut(width / BLOCK))
                .for_each_init(Vec::new, |room, (row, out)| each(room, row, out));
        }
    }

    /// Quantizes normalized rows.
    fn normalized(&self, rows: &[f32], weight: &[f32], out: &mut Vec<Activations>) {
        let width = self.width();
        self.quantized(rows, width, width, out, |row, room| rms_norm(self.isa, row, weight, self.epsilon, room));
    }

    /// The angles of a position.
    fn angles(&self, position: usize) -> &[(f32, f32)] {
        let pairs = self.head_size / 2;
        &self.angles[position * pairs..(position + 1) * pairs]
    }

    /// Takes at most [`POSITIONS`] tokens through the model, the first being at position `start`. `pages` gets their keys
    /// and values.
    fn pass(&self, pages: &mut Vec<Arc<Page>>, start: usize, tokens: &[u32], rows: Rows) -> Vec<Vec<f32>> {
        let (width, size, count) = (self.width(), self.head_size, tokens.len());
        let kv_width = self.kv_heads * size;
        while pages.len() * PAGE < start + count {
            pages.push(Arc::new(self.page()));
        }
        let mut x = Vec::with_capacity(count * width);
        let mut room = Vec::new();
        for &token in tokens {
            self.embedding.as_ref().unwrap_or(&self.output).column(token as usize, &mut room);
            x.extend_from_slice(&room);
        }
        let (mut activations, mut qkv, mut out) = (Vec::new(), Vec::new(), Vec::new());
        let mut attended = vec![0.0; count * width];
        let scale = (1.0 / (size as f64).sqrt()) as f32;
        for (at, layer) in self.layers.iter().enumerate() {
            self.normalized(&x, &layer.attention_norm, &mut activations);
            layer.qkv.multiply(self.isa, &activations, count, &mut qkv);
            for (row, qkv) in qkv.chunks_exact_mut(width + 2 * kv_width).enumerate() {
                let position = start + row;
                let angles = self.angles(position);
                let (query, rest) = qkv.split_at_mut(width);
                let (key, value) = rest.split_at_mut(kv_width);
                for query in query.chunks_exact_mut(size) {
                    rotate(query, angles);
                    query.iter_mut().for_each(|q| *q *= scale);
                }
                // Copied first if another context shares it.
                let page = Arc::make_mut(&mut pages[position / PAGE]);
                for (head, (key, value)) in key.chunks_exact_mut(size).zip(value.chunks_exact(size)).enumerate() {
                    rotate(key, angles);
                    self.place(at, head).write(page, position % PAGE, key, value);
                }
            }
            let (qkv, pages) = (&qkv[..], &pages[..]);
            let attend = |scores: &mut Vec<f32>, (task, out): (usize, &mut [f32])| {
                let (row, head) = (task / self.heads, task % self.heads);
                let query = &qkv[row * (width + 2 * kv_width) + head * size..][..size];
                let place = self.place(at, head * self.kv_heads / self.heads);
                attend(self.isa, pages, place, query, start + row + 1, scores, out);
            };
            if count * (start + count) < FEW_KEYS {
                let mut scores = Vec::new();
                attended.chunks_exact_mut(size).enumerate().for_each(|task| attend(&mut scores, task));
            } else {
                attended.par_chunks_exact_mut(size).enumerate().for_each_init(Vec::new, attend);
            }
            self.quantized(&attended, width, width, &mut activations, |row, room| room.copy_from_slice(row));
            layer.attention_output.multiply(self.isa, &activations, count, &mut out);
            add(self.isa, &mut x, &out);

            self.normalized(&x, &layer.feed_forward_norm, &mut activations);
            layer.gate_up.multiply(self.isa, &activations, count, &mut out);
            let inner = self.feed_forward;
            self.quantized(&out, 2 * inner, inner, &mut activations, |row, room| silu_gate(self.isa, row, room));
            layer.down.multiply(self.isa, &activations, count, &mut out);
            add(self.isa, &mut x, &out);
        }
        let x = match rows {
            Rows::None => return Vec::new(),
            Rows::Last => &x[(count - 1) * width..],
            Rows::All => &x[..],
        };
        self.normalized(x, &self.norm, &mut activations);
        self.output.multiply(self.isa, &activations, x.len() / width, &mut out);
        if x.len() == width {
            return vec![out];
        }
        out.chunks_exact(self.output.columns()).map(<[f32]>::to_vec).collect()
    }
}

/// Keys and values of [`PAGE`] positions in all layers and heads, where [`Llama::place`] says.
type Page = Vec<f32>;

/// One context of a [`Llama`].
#[derive(Clone)]
pub struct LlamaContext {
    model: Arc<Llama>,
    pages: Vec<Arc<Page>>,
    fed: usize,
}

impl LlamaContext {
    fn feed_all(&mut self, tokens: &[u32], rows: Rows) -> Result<Vec<Vec<f32>>, ModelError> {
        let model = &*self.model;
        if tokens.len() > model.context - self.fed {
            return Err(ModelError::Inference(format!(
                "{} tokens after {} do not fit a context of {}",
                tokens.len(),
                self.fed,
                model.context
            )));
        }
        let vocab = model.output.columns();
        if let Some(token) = tokens.iter().find(|&&token| token as usize >= vocab) {
            return Err(ModelError::Inference(format!("there is no token {token} in a vocabulary of {vocab}")));
        }
        // Inside the pool: its threads then pass the work among themselves without waking this one for every matrix.
        rayon::scope(|_| {
            let mut all = Vec::new();
            let last = tokens.len().div_ceil(POSITIONS);
            for (at, tokens) in tokens.chunks(POSITIONS).enumerate() {
                let rows = if rows == Rows::Last && at + 1 < last { Rows::None } else { rows };
                all.append(&mut model.pass(&mut self.pages, self.fed, tokens, rows));
                self.fed += tokens.len();
            }
            Ok(all)
        })
    }
}

impl Session for LlamaContext {
    fn read(&mut self, tokens: &[u32]) -> Result<Vec<f32>, ModelError> {
        self.feed_all(tokens, Rows::Last)?.pop().ok_or_else(|| ModelError::Inference("no tokens".into()))
    }

    fn extend(&mut self, tokens: &[u32]) -> Result<Vec<Vec<f32>>, ModelError> {
        self.feed_all(tokens, Rows::All)
    }

    fn truncate(&mut self, len: usize) {
        if len < self.fed {
            self.fed = len;
            self.pages.truncate(len.div_ceil(PAGE));
        }
    }

    fn fork(&self) -> Box<dyn Session> {
        Box::new(self.clone())
    }
}
