//! The store's tables, and what turns those of earlier releases into them.

/// The form of the tables below; another one is refused, not guessed at.
pub const SCHEMA_VERSION: i64 = 5;
pub const SCHEMA: &str = "
CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    created_ms INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('running', 'finished', 'stopped', 'failed')),
    reason TEXT,
    length INTEGER NOT NULL,
    start TEXT NOT NULL,
    model_name TEXT NOT NULL,
    model_sha256 TEXT NOT NULL,
    arithmetic TEXT NOT NULL,
    tokenizer_sha256 TEXT NOT NULL,
    vocab INTEGER NOT NULL,
    constrained_by TEXT,
    frame_bytes INTEGER NOT NULL DEFAULT 0,
    reserved_bytes INTEGER NOT NULL,
    asked_sha256 TEXT
) STRICT;
CREATE TABLE steps (
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    step INTEGER NOT NULL,
    token INTEGER NOT NULL,
    frame BLOB NOT NULL,
    UNIQUE (run, step)
) STRICT;
CREATE TABLE tokenizers (sha256 TEXT PRIMARY KEY, tokens BLOB NOT NULL) STRICT;
";
/// Form 3 did not say which release chose the tokens, nor what was to end a run.
pub const RELEASES: &str = "
CREATE TABLE releases (
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    crate_version TEXT NOT NULL,
    target TEXT NOT NULL,
    end_tokens TEXT NOT NULL,
    UNIQUE (run, crate_version, target)
) STRICT;
";

pub const ENVIRONMENTS: &str = "
CREATE TABLE environments (
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    environment TEXT NOT NULL,
    UNIQUE (run, environment)
) STRICT;
";

/// Form 1 did not say what had computed a run's logits; it was candle 0.11.
pub const FROM_1: &str = "ALTER TABLE runs ADD COLUMN arithmetic TEXT NOT NULL DEFAULT 'candle-0.11'";
/// Form 2 knew no constraints.
pub const FROM_2: &str = "ALTER TABLE runs ADD COLUMN constrained_by TEXT";
/// Beside [`ENVIRONMENTS`], which it had not: form 4 could not tell whether what was asked for had been altered, and did not say in which circumstances a run was made:
/// what it has of a run has circumstances that are not known.
pub const FROM_4: &str = r#"
ALTER TABLE runs ADD COLUMN asked_sha256 TEXT;
INSERT INTO environments SELECT id, '{"build_features":null,"server":null,"cpu_features":null,"kernels":null,"threads":null,"drafts":null}'
FROM runs WHERE EXISTS (SELECT 1 FROM steps WHERE run = id);
"#;
