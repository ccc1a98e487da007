//! The shape of every JSON document.

use serde_json::{Value, json};

use crate::support::{Store, eventually};

fn keys(document: &Value) -> Vec<&str> {
    document.as_object().unwrap().keys().map(String::as_str).collect()
}

fn has_keys(document: &Value, wanted: &[&str]) {
    for key in wanted {
        assert!(document.get(key).is_some(), "{key} is missing: {document}");
    }
}

#[test]
fn acquire_tells_everything_about_the_grant() {
    let store = Store::new();
    let done = store.leasehold(&["acquire", "x", "--json", "--ttl", "20s"]);
    let document = done.json();
    let mut wanted = ["name", "fence", "ticket", "ttl_ms", "valid_ms", "attempts", "waited_ms"];
    wanted.sort_unstable();
    assert_eq!(keys(&document), wanted);
    assert_eq!(document["name"], "x");
    assert!(document["fence"].is_u64());
    assert!(document["ticket"].as_str().unwrap().starts_with("lease1."));
    assert_eq!(document["ttl_ms"], 20_000);
    let valid = document["valid_ms"].as_u64().unwrap();
    assert!((10_000..20_000).contains(&valid), "{valid}");
    assert_eq!(document["attempts"], 1);
    assert!(document["waited_ms"].is_u64());
    assert_eq!(done.out.lines().count(), 1);
}

#[test]
fn a_lease_that_never_expires_has_null_times() {
    let store = Store::new();
    let done = store.leasehold(&["acquire", "x", "--json", "--ttl", "never"]);
    assert!(done.err.contains("never expires"), "it warns: {done:?}");
    let document = done.json();
    assert_eq!(document["ttl_ms"], Value::Null);
    assert_eq!(document["valid_ms"], Value::Null);
    assert_eq!(store.status("x")["holders"][0]["expires_in_ms"], Value::Null);
    let ticket = document["ticket"].as_str().unwrap();
    let check = store.leasehold(&["check", "--json", "--ticket", ticket]);
    assert_eq!(check.json(), json!({"name": "x", "held": true, "valid_ms": null}));
}

#[test]
fn renew_release_and_check() {
    let store = Store::new();
    let ticket = store.acquire(&["x"]);
    let renewed = store.leasehold(&["renew", "--json", "--ticket", &ticket]).json();
    assert_eq!(keys(&renewed), ["fence", "name", "valid_ms"]);
    assert!(renewed["valid_ms"].as_u64().unwrap() > 15_000);
    assert_eq!(renewed["fence"], store.status("x")["holders"][0]["fence"]);

    let checked = store.leasehold(&["check", "--json", "--ticket", &ticket]).json();
    assert_eq!(keys(&checked), ["held", "name", "valid_ms"]);
    assert_eq!(checked["held"], true);
    assert!(checked["valid_ms"].as_u64().unwrap() > 15_000);

    let released = store.leasehold(&["release", "--json", "--ticket", &ticket]);
    assert_eq!(released.json(), json!({"name": "x", "released": true}));

    let checked = store.leasehold(&["check", "--json", "--ticket", &ticket]);
    assert_eq!(checked.json(), json!({"name": "x", "held": false, "valid_ms": null}));
    assert_eq!(checked.code, 79);
}

#[test]
fn a_release_that_came_too_late_says_false() {
    let store = Store::new();
    let ticket = store.acquire(&["x", "--ttl", "100ms"]);
    std::thread::sleep(std::time::Duration::from_millis(150));
    let done = store.leasehold(&["release", "--json", "--ticket", &ticket]);
    assert_eq!(done.json(), json!({"name": "x", "released": false}));
    assert_eq!(done.code, 79);
}

#[test]
fn status_shows_holders_and_queue() {
    let store = Store::new();
    assert_eq!(store.status("x"), json!({"name": "x", "state": "free", "holders": [], "queue": []}));

    store.acquire(&["x", "--owner", "first", "--reason", "why"]);
    let waiter = store.start(&["run", "x", "--owner", "second", "--", "true"]);
    let mut status = Value::Null;
    eventually("a waiter shows", || {
        status = store.status("x");
        !status["queue"].as_array().unwrap().is_empty()
    });
    assert_eq!(status["state"], "held");
    let holder = &status["holders"][0];
    has_keys(holder, &["fence", "owner", "reason", "acquired_at", "expires_in_ms"]);
    assert_eq!(holder["owner"], "first");
    assert_eq!(holder["reason"], "why");
    let acquired = holder["acquired_at"].as_str().unwrap();
    assert!(acquired.starts_with("20") && acquired.ends_with('Z'), "{acquired}");
    assert!(holder["expires_in_ms"].as_u64().unwrap() <= 30_000);
    let waiting = &status["queue"][0];
    has_keys(waiting, &["position", "owner", "waiting_ms"]);
    assert_eq!(waiting["position"], 1);
    assert_eq!(waiting["owner"], "second");
    drop(waiter);
}

#[test]
fn list_is_one_line_for_each_lease() {
    let store = Store::new();
    assert_eq!(store.leasehold(&["list", "--json"]).out, "");
    store.acquire(&["b/2"]);
    store.acquire(&["a"]);
    store.acquire(&["b/1"]);
    let names = |args: &[&str]| -> Vec<String> {
        let done = store.leasehold(args);
        let documents = done.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        documents.map(|document| document["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&["list", "--json"]), ["a", "b/1", "b/2"]);
    assert_eq!(names(&["list", "b/", "--json"]), ["b/1", "b/2"]);
    let line = store.leasehold(&["list", "a", "--json"]).json();
    let mut status = store.status("a");
    status["holders"][0]["expires_in_ms"] = line["holders"][0]["expires_in_ms"].clone();
    assert_eq!(line, status, "the same object as status");
}

#[test]
fn an_error_is_a_document_on_stdout() {
    let store = Store::new();
    let ticket = store.acquire(&["x", "--ttl", "5m"]);
    let cases: &[(&[&str], &str, i32)] = &[
        (&["--json", "run", "x", "--no-wait", "--", "true"], "contended", 75),
        (&["run", "y", "--ttl", "30", "--json", "--", "true"], "invalid", 64),
        (&["--json", "nonsense"], "invalid", 64),
        (&["--json", "status", ""], "invalid", 64),
        (&["--json", "break", "x", "--fence", "1"], "lost", 79),
    ];
    for (args, kind, code) in cases {
        let done = store.leasehold(args);
        assert_eq!(done.code, *code, "{args:?}: {done:?}");
        let error = &done.json()["error"];
        assert_eq!(keys(error), ["hint", "kind", "message"]);
        assert_eq!(error["kind"], *kind, "{args:?}");
        assert!(!error["message"].as_str().unwrap().is_empty());
        assert!(!error["hint"].as_str().unwrap().is_empty());
        assert_eq!(done.err, "", "{args:?}");
    }
    // After the two hyphens it is not ours.
    let done = store.leasehold(&["run", "y", "--bad", "--", "echo", "--json"]);
    assert_eq!((done.code, done.out.as_str()), (64, ""));
    drop(ticket);
}
