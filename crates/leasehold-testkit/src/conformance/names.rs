//! A name is any text without control characters, and nothing in it means anything to a store.

use leasehold::{ErrorKind, Name};

use super::kit::{Steps, assert_kind, claim, contended, freed, release};
use crate::Fixture;

pub(super) async fn a_name_may_have_any_character_but_control_characters(fixture: &Fixture) {
    let client = fixture.client().await;
    let long = "n".repeat(Name::MAX_BYTES);
    let wide = "ü".repeat(Name::MAX_BYTES / 2);
    let names = [
        " ",
        "a b",
        " a",
        "'",
        "\"",
        "`",
        "';--",
        "%",
        "_",
        "*",
        "?",
        "\\",
        "/",
        "//",
        "..",
        "../..",
        "../../etc/passwd",
        "/absolute",
        "a/../b",
        ".",
        "-",
        "--ttl",
        "#",
        "a:b",
        "a=b&c",
        "{tag}",
        "a{b}c",
        "}{",
        "[x]",
        "$HOME",
        "$(x)",
        "|",
        "<>",
        "\u{fffd}",
        "\u{200b}",
        "\u{202e}",
        "\u{10ffff}",
        "日本語",
        "👩‍👩‍👧",
        "Ω",
        "null",
        "NaN",
        "0",
        "name.lock",
        &long,
        &wide,
    ];
    let mut leases = Vec::new();
    for name in names {
        let lease = client.lock(name).unwrap().try_acquire().await;
        leases.push(lease.unwrap_or_else(|error| panic!("{name:?}: {error}")));
        contended(client.lock(name).unwrap().try_acquire().await);
    }
    let other = fixture.client().await;
    let mut listed: Vec<String> = other.list("").await.unwrap().into_iter().map(|view| view.name.into()).collect();
    listed.sort_unstable();
    let mut expected = names.map(str::to_owned);
    expected.sort_unstable();
    assert_eq!(listed, expected);
    for lease in leases {
        assert!(lease.release().await.unwrap());
    }
    for name in names {
        freed(&other, &name.parse().unwrap()).await;
    }
}

pub(super) async fn names_that_look_alike_are_different(fixture: &Fixture) {
    let client = fixture.client().await;
    // Upper and lower case, composed and decomposed, trailing blanks, a prefix of the other.
    for (one, other) in [("a", "A"), ("\u{e9}", "e\u{301}"), ("a", "a "), ("a", "a/"), ("a", "aa"), ("a", "\u{430}")] {
        let lease = client.lock(one).unwrap().try_acquire().await.unwrap();
        let second = client.lock(other).unwrap().try_acquire().await;
        second.unwrap_or_else(|error| panic!("{one:?} and {other:?}: {error}")).release().await.unwrap();
        lease.release().await.unwrap();
    }
}

pub(super) async fn what_is_no_name_is_refused(fixture: &Fixture) {
    let client = fixture.client().await;
    let long = "n".repeat(Name::MAX_BYTES + 1);
    for text in ["", "a\0", "\0", "a\nb", "\t", "\u{1b}[0m", "a\u{7f}", "a\u{85}", &long] {
        assert_kind(client.lock(text), ErrorKind::Invalid);
    }
    // The store has nothing of it.
    let steps = Steps::by(&client, "x");
    steps.granted(claim(1)).await;
    steps.ask(release(1)).await;
    assert_eq!(client.list("").await.unwrap().len(), 0);
}
