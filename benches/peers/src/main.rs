//! `quillmate-peers LIBRARY ROWS [MODEL]`: the same rows through other samplers, and the same model through llama.cpp.
//! LIBRARY is the folder that holds libllama, ROWS one of logits (made ones are taken where it is missing). The results are one
//! JSON list on standard output, and lines for people on standard error.

mod llama;
mod rows;
mod samplers;
mod step;

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (library, rows, model) = match &arguments[..] {
        [library, rows] => (library, rows, None),
        [library, rows, model] => (library, rows, Some(model)),
        _ => return Err("usage: quillmate-peers LIBRARY ROWS [MODEL]".into()),
    };
    let llama = llama::Llama::load(Path::new(library))?;
    let rows = rows::all(Path::new(rows));
    let mut results = samplers::tokens(llama, &rows)?;
    results.extend(samplers::batches(&rows)?);
    if let Some(model) = model {
        results.extend(step::against_llama(llama, Path::new(model))?);
    }
    println!("{}", serde_json::to_string_pretty(&results)?);
    Ok(())
}
