//! The page's files, the headers of every answer, which allow the page only what it needs, and the check of host and
//! origin.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{DefaultPredicate, NotForContentType, Predicate};
use tower_http::services::ServeDir;

use crate::error::{ApiError, Code};
use crate::stream::MEDIA_TYPE;

/// What the page may load and do: its own files, its own server, WebAssembly. No inline script, no inline style.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; \
     connect-src 'self'; img-src 'self' data:; font-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'";

const HEADERS: [(HeaderName, HeaderValue); 5] = [
    (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_SECURITY_POLICY)),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
];

/// Which hosts and origins are allowed.
#[derive(Debug, Clone)]
pub struct Visitors {
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Visitors {
    /// Loopback, the address that is listened on, and what was named besides.
    pub fn new(listening: IpAddr, hosts: &[String], origins: &[String]) -> Self {
        let own = match listening {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        let hosts = ["localhost", "127.0.0.1", "[::1]", &own]
            .into_iter()
            .chain(hosts.iter().map(String::as_str))
            .map(str::to_ascii_lowercase)
            .collect();
        Self { hosts, origins: origins.iter().map(|origin| origin.to_ascii_lowercase()).collect() }
    }

    /// Refuses a foreign name for this server (a page elsewhere whose name was pointed here) and a foreign page. A name
    /// or a page given twice is refused too: whoever is on the way may have believed the other one.
    fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
        let once = |name, code: Code| {
            let mut values = headers.get_all(name).iter();
            let value = values.next();
            if values.next().is_some() {
                let message = format!("{name} is given more than once");
                return Err(ApiError::new(code, message));
            }
            let text = value.map(|value: &HeaderValue| value.to_str().unwrap_or_default().to_ascii_lowercase());
            Ok(text)
        };
        let host = once(&header::HOST, Code::HostRefused)?.unwrap_or_default();
        // A request's first line may name a host too.
        if uri.authority().is_some_and(|authority| !authority.as_str().eq_ignore_ascii_case(&host)) {
            return Err(ApiError::new(Code::HostRefused, "the request names two hosts"));
        }
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => &host,
        };
        if !self.hosts.iter().any(|known| known == name) {
            let shown: String = host.chars().take(100).collect();
            return Err(ApiError::new(
                Code::HostRefused,
                format!("{shown:?} is not a name of this server; --allow-host adds one"),
            ));
        }
        let Some(origin) = once(&header::ORIGIN, Code::OriginRefused)? else {
            return Ok(());
        };
        let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        if authority == Some(&host) || self.origins.contains(&origin) {
            return Ok(());
        }
        let shown: String = origin.chars().take(100).collect();
        Err(ApiError::new(
            Code::OriginRefused,
            format!("pages of {shown:?} may not ask this server; --allow-origin lets them"),
        ))
    }
}

/// The whole server: the API, the page if there is one, and what holds for both.
pub fn site(api: Router, www: Option<&Path>, visitors: Visitors) -> Router {
    let router = match www {
        // ServeDir keeps to its folder, answers conditional and range requests, and finds index.html.
        Some(folder) => api.fallback_service(
            Router::new().fallback_service(ServeDir::new(folder)).layer(middleware::from_fn(caching)),
        ),
        None => api.fallback(async || ApiError::new(Code::NotFound, "no page is served here; --www DIR serves one")),
    };
    let compressed = DefaultPredicate::new().and(NotForContentType::const_new(MEDIA_TYPE));
    router
        .layer(CompressionLayer::new().compress_when(compressed))
        .layer(middleware::from_fn_with_state(Arc::new(visitors), guard))
}

async fn guard(State(visitors): State<Arc<Visitors>>, request: Request, next: Next) -> Response {
    let mut response = match visitors.check(request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    };
    response.headers_mut().extend(HEADERS);
    response
}

/// Files under assets/ carry a digest of what is in them in their names and never change; all others are asked for again.
async fn caching(request: Request, next: Next) -> Response {
    let hashed = request.uri().path().starts_with("/assets/");
    let mut response = next.run(request).await;
    let found = response.status().is_success() || response.status() == StatusCode::NOT_MODIFIED;
    let value = if hashed && found { "public, max-age=31536000, immutable" } else { "no-cache" };
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static(value));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &str, origin: Option<&str>) -> Option<String> {
        check_all("/", &[host], origin.as_slice())
    }

    fn check_all(uri: &str, hosts: &[&str], origins: &[&str]) -> Option<String> {
        let visitors =
            Visitors::new(IpAddr::from([127, 0, 0, 1]), &["desk.example".into()], &["http://localhost:5173".into()]);
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(header::HOST, HeaderValue::from_str(host).unwrap());
        }
        for origin in origins {
            headers.append(header::ORIGIN, HeaderValue::from_str(origin).unwrap());
        }
        visitors.check(&uri.parse().unwrap(), &headers).err().map(|error| error.code().to_owned())
    }

    #[test]
    fn two_names_or_two_pages_are_none() {
        let (here, page, evil) = ("127.0.0.1:80", "http://127.0.0.1:80", "http://evil.example");
        for hosts in [[here, "evil.example"], ["evil.example", here], [here, here]] {
            assert_eq!(check_all("/", &hosts, &[page]).as_deref(), Some("host_refused"), "{hosts:?}");
        }
        for origins in [[page, evil], [evil, page], [page, page]] {
            assert_eq!(check_all("/", &[here], &origins).as_deref(), Some("origin_refused"), "{origins:?}");
        }
        assert_eq!(check_all("http://evil.example/api/health", &[here], &[]).as_deref(), Some("host_refused"));
        assert_eq!(check_all("http://127.0.0.1:80/api/health", &[here], &[]), None);
    }

    #[test]
    fn its_own_pages_may_ask() {
        assert_eq!(check("127.0.0.1:80", None), None);
        assert_eq!(check("LOCALHOST:80", Some("http://localhost:80")), None);
        assert_eq!(check("[::1]:80", Some("http://[::1]:80")), None);
        assert_eq!(check("desk.example", None), None);
        assert_eq!(check("127.0.0.1:80", Some("http://localhost:5173")), None);
    }

    #[test]
    fn others_may_not() {
        assert_eq!(check("evil.example:80", None).as_deref(), Some("host_refused"));
        assert_eq!(check("", None).as_deref(), Some("host_refused"));
        assert_eq!(check("127.0.0.1.evil.example", None).as_deref(), Some("host_refused"));
        for origin in ["http://evil.example", "null", "http://127.0.0.1:81", "http://127.0.0.1:80.evil.example", ""] {
            assert_eq!(check("127.0.0.1:80", Some(origin)).as_deref(), Some("origin_refused"), "{origin}");
        }
    }
}
