//! Names of contracts and formats. An unknown one is an error, never a guess.

/// The sampling contract this crate keeps.
pub const CONTRACT: &str = "quillmate-v1";

/// The older sampling contract, kept so that its recorded runs replay.
pub const LEGACY_CONTRACT: &str = "mosaic-splitmix64-top-k-top-p-v1";

/// The version of the state's JSON form.
pub const STATE_FORMAT: u32 = 1;

/// The version of a record's JSON form; forms 1 and 2 are read too.
pub const RECORD_FORMAT: u32 = 3;

/// The version of the binary form of a frame.
pub const FRAME_FORMAT: u8 = 1;
