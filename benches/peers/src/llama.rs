//! What is needed of llama.cpp's C API, loaded from the library that npm's `@node-llama-cpp/linux-x64` carries.
//!
//! Its parameter structures grow from release to release. They are taken as the library's defaults and handed back unread,
//! in a block larger than any of them has been: the calling convention passes structures of this size on the stack, so
//! that the callee sees its own at the start of the block.

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;

use libloading::{Library, Symbol};

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[repr(C)]
#[derive(Clone, Copy)]
struct Opaque([u64; 64]);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct TokenData {
    id: i32,
    logit: f32,
    p: f32,
}

#[repr(C)]
struct TokenArray {
    data: *mut TokenData,
    size: usize,
    selected: i64,
    sorted: bool,
}

extern "C" fn silent(_level: c_int, _text: *const c_char, _user: *mut c_void) {}

/// The loaded library. Kept for the life of the process: what it hands out points into it.
pub struct Llama {
    llama: Library,
    _ggml: Library,
}

impl Llama {
    /// `folder` holds `libllama…so` and its backends.
    pub fn load(folder: &Path) -> Outcome<&'static Self> {
        let find = |start: &str| -> Outcome<std::path::PathBuf> {
            let entries = std::fs::read_dir(folder)?.filter_map(Result::ok);
            let found = entries.map(|entry| entry.path()).find(|path| {
                path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(start))
            });
            Ok(found.ok_or(format!("no {start}* in {}", folder.display()))?)
        };
        // SAFETY: the library's own initialisers, of a package named and pinned in the lock beside.
        let (ggml, llama) = unsafe { (Library::new(find("libggml.")?)?, Library::new(find("libllama.")?)?) };
        let folder = CString::new(folder.to_str().ok_or("path")?)?;
        // SAFETY: signatures as in ggml-backend.h and llama.h.
        unsafe {
            let log: Symbol<unsafe extern "C" fn(extern "C" fn(c_int, *const c_char, *mut c_void), *mut c_void)> =
                llama.get(b"llama_log_set")?;
            log(silent, std::ptr::null_mut());
            let backends: Symbol<unsafe extern "C" fn(*const c_char)> = ggml.get(b"ggml_backend_load_all_from_path")?;
            backends(folder.as_ptr());
            let init: Symbol<unsafe extern "C" fn()> = llama.get(b"llama_backend_init")?;
            init();
        }
        Ok(Box::leak(Box::new(Self { llama, _ggml: ggml })))
    }

    fn symbol<T: Copy>(&self, name: &str) -> Outcome<T> {
        // SAFETY: each caller names the type that llama.h gives.
        Ok(*unsafe { self.llama.get::<T>(name.as_bytes())? })
    }
}

/// One link of a chain.
pub enum Link {
    Greedy,
    TopK(i32),
    TopP(f32),
    Temperature(f32),
    Draw(u32),
}

/// `llama_sampler_chain`, and the array of candidates it works on.
pub struct Chain {
    chain: *mut c_void,
    apply: unsafe extern "C" fn(*mut c_void, *mut TokenArray),
    candidates: Vec<TokenData>,
}

impl Chain {
    pub fn new(llama: &Llama, links: &[Link]) -> Outcome<Self> {
        // SAFETY: signatures as in llama.h; llama_sampler_chain_params is one bool, no_perf.
        unsafe {
            let init: unsafe extern "C" fn(u64) -> *mut c_void = llama.symbol("llama_sampler_chain_init")?;
            let add: unsafe extern "C" fn(*mut c_void, *mut c_void) = llama.symbol("llama_sampler_chain_add")?;
            let chain = init(1);
            for link in links {
                let made = match *link {
                    Link::Greedy => {
                        llama.symbol::<unsafe extern "C" fn() -> *mut c_void>("llama_sampler_init_greedy")?()
                    }
                    Link::TopK(k) => {
                        llama.symbol::<unsafe extern "C" fn(i32) -> *mut c_void>("llama_sampler_init_top_k")?(k)
                    }
                    Link::TopP(p) => llama
                        .symbol::<unsafe extern "C" fn(f32, usize) -> *mut c_void>("llama_sampler_init_top_p")?(
                        p, 1
                    ),
                    Link::Temperature(t) => {
                        llama.symbol::<unsafe extern "C" fn(f32) -> *mut c_void>("llama_sampler_init_temp")?(t)
                    }
                    Link::Draw(seed) => {
                        llama.symbol::<unsafe extern "C" fn(u32) -> *mut c_void>("llama_sampler_init_dist")?(seed)
                    }
                };
                add(chain, made);
            }
            Ok(Self { chain, apply: llama.symbol("llama_sampler_apply")?, candidates: Vec::new() })
        }
    }

    /// As `llama_sampler_sample` does: the candidates are made anew from the row, and the chain is applied.
    pub fn sample(&mut self, row: &[f32]) -> u32 {
        self.candidates.clear();
        self.candidates.extend((0i32..).zip(row).map(|(id, &logit)| TokenData { id, logit, p: 0.0 }));
        let mut array =
            TokenArray { data: self.candidates.as_mut_ptr(), size: self.candidates.len(), selected: -1, sorted: false };
        // SAFETY: the array points at `candidates`, which outlives the call.
        unsafe { (self.apply)(self.chain, &mut array) };
        // A link may replace `data` by memory of its own.
        // SAFETY: a chain that ends in a draw or in greedy sets `selected` to an index below `size`.
        let chosen = unsafe { *array.data.add(array.selected as usize) };
        chosen.id as u32
    }
}

/// A model in llama.cpp with one context.
pub struct Model {
    context: *mut c_void,
    batch: unsafe extern "C" fn(*mut i32, i32) -> Opaque,
    threads: unsafe extern "C" fn(*mut c_void, i32, i32),
    decode: unsafe extern "C" fn(*mut c_void, Opaque) -> i32,
    logits: unsafe extern "C" fn(*mut c_void, i32) -> *const f32,
    clear: unsafe extern "C" fn(*mut c_void, bool),
    memory: unsafe extern "C" fn(*const c_void) -> *mut c_void,
    vocabulary: usize,
}

impl Model {
    pub fn load(llama: &'static Llama, file: &Path, vocabulary: usize) -> Outcome<Self> {
        let file = CString::new(file.to_str().ok_or("path")?)?;
        // SAFETY: signatures as in llama.h; see the top for the structures.
        let context = unsafe {
            let defaults: unsafe extern "C" fn() -> Opaque = llama.symbol("llama_model_default_params")?;
            let load: unsafe extern "C" fn(*const c_char, Opaque) -> *mut c_void =
                llama.symbol("llama_model_load_from_file")?;
            let model = load(file.as_ptr(), defaults());
            if model.is_null() {
                return Err("llama.cpp did not load the model".into());
            }
            let defaults: unsafe extern "C" fn() -> Opaque = llama.symbol("llama_context_default_params")?;
            let open: unsafe extern "C" fn(*mut c_void, Opaque) -> *mut c_void =
                llama.symbol("llama_init_from_model")?;
            let context = open(model, defaults());
            if context.is_null() {
                return Err("llama.cpp did not open a context".into());
            }
            context
        };
        Ok(Self {
            context,
            batch: llama.symbol("llama_batch_get_one")?,
            threads: llama.symbol("llama_set_n_threads")?,
            decode: llama.symbol("llama_decode")?,
            logits: llama.symbol("llama_get_logits_ith")?,
            clear: llama.symbol("llama_memory_clear")?,
            memory: llama.symbol("llama_get_memory")?,
            vocabulary,
        })
    }

    pub fn set_threads(&mut self, threads: i32) {
        // SAFETY: the context is open.
        unsafe { (self.threads)(self.context, threads, threads) };
    }

    pub fn clear(&mut self) {
        // SAFETY: the context is open.
        unsafe { (self.clear)((self.memory)(self.context), true) };
    }

    /// Adds tokens and gives the logits after the last.
    pub fn feed(&mut self, tokens: &[u32]) -> Outcome<Vec<f32>> {
        let mut tokens: Vec<i32> = tokens.iter().map(|token| *token as i32).collect();
        // SAFETY: the batch points at `tokens`, which outlives the call; the logits are V floats of the context's.
        unsafe {
            let code = (self.decode)(self.context, (self.batch)(tokens.as_mut_ptr(), tokens.len() as i32));
            if code != 0 {
                return Err(format!("llama_decode: {code}").into());
            }
            Ok(std::slice::from_raw_parts((self.logits)(self.context, -1), self.vocabulary).to_vec())
        }
    }
}

// SAFETY: the context is used through `&mut` alone, and llama.cpp ties none to a thread.
unsafe impl Send for Model {}
