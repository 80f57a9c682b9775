//! The token that calls must carry, where one is set: whoever has it may read, write and delete everything.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq as _;

use crate::error::{ApiError, Code};

/// The fewest characters of a token; a shorter one can be guessed.
const SHORTEST: usize = 16;

/// A token, as far as it is needed to know it again.
#[derive(Clone)]
pub struct Token {
    sha256: [u8; 32],
}

/// Why a token cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It is too short, or holds what cannot be sent.
    #[error("a token must be {SHORTEST} or more visible ASCII characters without spaces")]
    Form,
    /// Its file cannot be read.
    #[error("cannot read the token file {path}: {source}")]
    File {
        /// The file as it was given.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Token {
    /// Takes a token as it was given.
    pub fn new(token: &str) -> Result<Self, TokenError> {
        if token.len() < SHORTEST || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::Form);
        }
        Ok(Self { sha256: Sha256::digest(token).into() })
    }

    /// Reads a token from a file; white space around it is not part of it.
    pub fn from_file(path: &Path) -> Result<Self, TokenError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| TokenError::File { path: path.to_owned(), source })?;
        Self::new(text.trim())
    }

    /// Refuses a call that does not carry the token. How long that takes does not depend on how much of it is right.
    fn check(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let mut given = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(one), None) = (given.next(), given.next()) else {
            return Err(ApiError::new(
                Code::TokenMissing,
                "this server asks for a token: Authorization: Bearer TOKEN, once",
            ));
        };
        let token = one.to_str().ok().and_then(|one| one.split_once(' '));
        let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim());
        let Some(token) = token else {
            return Err(ApiError::new(Code::TokenMissing, "this server asks for a token: Authorization: Bearer TOKEN"));
        };
        let digest: [u8; 32] = Sha256::digest(token).into();
        if bool::from(digest.ct_eq(&self.sha256)) {
            return Ok(());
        }
        Err(ApiError::new(Code::TokenWrong, "this is not the server's token"))
    }
}

/// Lets calls through that carry the token.
pub async fn ask(State(token): State<Arc<Token>>, request: Request, next: Next) -> Response {
    match token.check(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_the_token_itself_is_the_token() {
        let token = Token::new("0123456789abcdef").unwrap();
        let check = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            }
            token.check(&headers).err().map(|error| error.code().to_owned())
        };
        assert_eq!(check(&["Bearer 0123456789abcdef"]), None);
        assert_eq!(check(&["bearer  0123456789abcdef "]), None);
        for wrong in ["Bearer 0123456789abcdeF", "Bearer 0123456789abcde", "Bearer 0123456789abcdef0", "Bearer "] {
            assert_eq!(check(&[wrong]).as_deref(), Some("token_wrong"), "{wrong}");
        }
        for missing in [&[][..], &["Basic 0123456789abcdef"], &["Bearer 0123456789abcdef", "Bearer x"], &["x"]] {
            assert_eq!(check(missing).as_deref(), Some("token_missing"), "{missing:?}");
        }
    }

    #[test]
    fn a_token_that_can_be_guessed_or_not_be_sent_is_refused() {
        for wrong in ["", "short", "0123456789 abcdef", "0123456789abcdef\n", "0123456789abcd\u{e9}f"] {
            assert!(Token::new(wrong).is_err(), "{wrong:?}");
        }
        assert!(Token::from_file(Path::new("/nowhere/token")).is_err());
    }
}
