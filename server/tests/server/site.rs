//! The page's files and what protects them.

use tempfile::tempdir;

use crate::support::{Server, refused, request};

#[test]
fn the_page_is_served_with_strict_headers_and_honest_caching() {
    let data = tempdir().unwrap();
    let www = tempdir().unwrap();
    std::fs::create_dir(www.path().join("assets")).unwrap();
    std::fs::write(www.path().join("index.html"), "<!doctype html><title>Quillmate</title>").unwrap();
    std::fs::write(www.path().join("assets/page-1234abcd.js"), "export {}\n".repeat(100)).unwrap();
    std::fs::write(www.path().join("assets/core-1234abcd.wasm"), b"\0asm").unwrap();
    std::fs::write(data.path().join("secret"), "secret").unwrap();
    let server = Server::tiny(data.path(), &["--www", www.path().to_str().unwrap()]);

    for path in ["/", "/assets/page-1234abcd.js", "/api/health", "/missing", "/api/missing"] {
        let answer = server.raw(path, &[]);
        let policy = answer.headers()["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self' 'wasm-unsafe-eval';"), "{path}");
        assert!(!policy.contains("unsafe-inline") && !policy.contains("'unsafe-eval'"));
        assert_eq!(answer.headers()["x-content-type-options"], "nosniff");
    }
    let page = server.raw("/", &[]);
    assert_eq!(page.headers()["cache-control"], "no-cache");
    assert!(page.headers()["content-type"].to_str().unwrap().starts_with("text/html"));
    let script = server.raw("/assets/page-1234abcd.js", &[("accept-encoding", "gzip")]);
    assert!(script.headers()["cache-control"].to_str().unwrap().contains("immutable"));
    let wasm = server.raw("/assets/core-1234abcd.wasm", &[]);
    assert_eq!(wasm.headers()["content-type"], "application/wasm");
    let missing = server.raw("/assets/page-00000000.js", &[]);
    assert_eq!(missing.status(), 404);
    assert_eq!(missing.headers()["cache-control"], "no-cache");
    for path in ["/../secret", "/%2e%2e/secret", "/assets/..%2f..%2fsecret", "//etc/passwd"] {
        let status = server.raw(path, &[]).status().as_u16();
        assert!((400..500).contains(&status), "{path}: {status}");
    }
}

#[test]
fn without_a_page_there_is_the_api_alone() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &[]);
    assert_eq!(server.get("/").0, 404);
    assert!(refused(data.path(), "tiny", &["--www", "/nowhere"]).contains("/nowhere"));
}

#[test]
fn foreign_pages_and_foreign_names_are_refused() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &[]);
    let ask = |headers: &[(&str, &str)]| server.raw("/api/health", headers).status().as_u16();
    assert_eq!(ask(&[("origin", &server.address)]), 200);
    assert_eq!(ask(&[("origin", "http://evil.example")]), 403);
    assert_eq!(ask(&[("host", "evil.example")]), 403);
}

#[test]
fn a_stream_is_not_held_back_by_compression() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &["--step-delay-ms", "50"]);
    let id = server.begin(&request("a", 1, 100));
    let answer = server.raw(&format!("/api/runs/{id}/stream?from=0"), &[("accept-encoding", "gzip")]);
    assert!(!answer.headers().contains_key("content-encoding"));
    assert_eq!(answer.headers()["content-type"], quillmate_server::stream::MEDIA_TYPE);
}
