//! The results as they are kept: a header, then a line of JSON for each text, in the order of the plan. A line is on disk
//! before the next text begins; a last line that was only half written is made again.
//!
//! What only a clock can tell (seconds) is kept with its text, so that an evaluation that was stopped keeps it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::EvaluateError;
use crate::plan::{Arm, Header, Plan};

/// A text that was generated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextLine {
    /// The prompt's id.
    pub prompt: String,
    /// The seed in decimal.
    pub seed: String,
    /// With which settings.
    pub side: Arm,
    /// What was sampled, an end token included.
    pub tokens: Vec<u32>,
    /// Whether it ends with an end token rather than at `max_tokens`.
    pub ended: bool,
    /// −ln of the text's probability under the model's own distribution at temperature 1, an end token included; in nats.
    /// Absent for a text the model itself holds impossible.
    pub surprise: Option<f64>,
    /// The text.
    pub text: String,
    /// Seconds from the first token to the last. This and the other seconds are other numbers each time.
    pub seconds: f64,
    /// Seconds from the prompt to the first token: reading the prompt (which is done once for all its texts, and counted for
    /// each) and sampling. Absent in texts of form 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_token_seconds: Option<f64>,
    /// Passes through the model: one for the prompt, then one for each token but the last. Absent in texts of form 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passes: Option<u64>,
    /// Seconds of processor time this took, of all threads, reading the prompt included. Absent in texts of form 1, and where
    /// the system does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<f64>,
    /// The code of the refusal that ended the text: the sampler's, or a processor's that left no token. The text is what had
    /// been sampled by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// The results file, locked as long as this lives.
pub struct Results {
    path: PathBuf,
    file: File,
    lines: Vec<TextLine>,
}

impl Results {
    /// Opens the results of a plan in a folder, or begins them. Of a file that is there the header must be the plan's, and
    /// the lines the first of its texts.
    ///
    /// # Errors
    /// The file cannot be read or written, is another evaluation's, is damaged before its last line, or is in use.
    pub fn open(folder: &Path, plan: &Plan) -> Result<Self, EvaluateError> {
        let path = folder.join("results.jsonl");
        let failed = |error| EvaluateError::File(path.clone(), error);
        std::fs::create_dir_all(folder).map_err(|error| EvaluateError::File(folder.to_owned(), error))?;
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(EvaluateError::Busy(folder.to_owned())),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        // What follows the last end of a line was half written.
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let lines = Self::check(&path, plan, &bytes[..whole])?;
        file.set_len(whole as u64).map_err(failed)?;
        file.seek(SeekFrom::End(0)).map_err(failed)?;
        let mut results = Self { path, file, lines };
        if whole == 0 {
            results.write(&plan.header)?;
        }
        Ok(results)
    }

    fn check(path: &Path, plan: &Plan, bytes: &[u8]) -> Result<Vec<TextLine>, EvaluateError> {
        let damaged = |line: usize, why: String| EvaluateError::Damaged(path.to_owned(), line, why);
        let text = std::str::from_utf8(bytes).map_err(|error| damaged(1, error.to_string()))?;
        let mut rows = text.lines();
        let Some(first) = rows.next() else {
            return Ok(Vec::new());
        };
        let header: Header = serde_json::from_str(first).map_err(|error| damaged(1, error.to_string()))?;
        if !plan.header.goes_on(&header) {
            return Err(EvaluateError::Other(path.to_owned(), plan.header.differences(&header)));
        }
        let mut lines = Vec::new();
        for (at, row) in rows.enumerate() {
            let number = at + 2;
            let line: TextLine = serde_json::from_str(row).map_err(|error| damaged(number, error.to_string()))?;
            let Some(task) = plan.tasks.get(at) else {
                return Err(damaged(number, "more texts than there can be".into()));
            };
            let expected = (&plan.prompts[task.prompt].id, &task.seed.to_string(), task.side);
            if (&line.prompt, &line.seed, line.side) != expected {
                return Err(damaged(number, format!("it should be the text of {expected:?}")));
            }
            lines.push(line);
        }
        Ok(lines)
    }

    /// The texts so far.
    pub fn lines(&self) -> &[TextLine] {
        &self.lines
    }

    /// Adds the next text, and returns once it is on disk.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, line: TextLine) -> Result<(), EvaluateError> {
        self.write(&line)?;
        self.lines.push(line);
        Ok(())
    }

    fn write(&mut self, line: &impl Serialize) -> Result<(), EvaluateError> {
        let failed = |error| EvaluateError::File(self.path.clone(), error);
        let mut text = serde_json::to_string(line).map_err(|error| failed(error.into()))?;
        text.push('\n');
        self.file.write_all(text.as_bytes()).map_err(failed)?;
        self.file.sync_data().map_err(failed)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A text of these tokens that says all there is to say.
    pub fn line(side: Arm, tokens: &[u32]) -> TextLine {
        TextLine {
            prompt: "p".into(),
            seed: "1".into(),
            side,
            tokens: tokens.to_vec(),
            ended: false,
            surprise: Some(1.0),
            text: String::new(),
            seconds: 1.0,
            first_token_seconds: Some(0.25),
            passes: Some(tokens.len() as u64),
            cpu_seconds: Some(1.5),
            refused: None,
        }
    }

    #[test]
    fn a_text_of_form_1_is_read_and_what_it_did_not_hold_is_missing() {
        let old =
            r#"{"prompt":"p","seed":"1","side":"A","tokens":[7],"ended":false,"surprise":1.0,"text":"","seconds":1.0}"#;
        let read: TextLine = serde_json::from_str(old).unwrap();
        let expected = TextLine { first_token_seconds: None, passes: None, cpu_seconds: None, ..line(Arm::A, &[7]) };
        assert_eq!(read, expected);
        // And written as it was: nothing is made up.
        assert_eq!(serde_json::to_string(&read).unwrap(), old);
        let new = line(Arm::A, &[7]);
        assert_eq!(serde_json::from_str::<TextLine>(&serde_json::to_string(&new).unwrap()).unwrap(), new);
    }
}
