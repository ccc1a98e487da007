//! What the keys of a name are called.
//!
//! The lock key is what strangers know: the prefix and the name. The keys beside it must share its hash slot, which is
//! that of its hash tag (what stands between its first `{` and the next `}`, unless that is nothing), or of all of it.
//! A brace that belongs to no tag could not stand in a tag of ours, so it is escaped.

use std::borrow::Cow;

use crate::Error;

/// The keys of one name, in the order in which scripts are given them.
pub(super) type NameKeys = [String; 6];

/// What comes before each name.
#[derive(Clone, Debug)]
pub(super) struct Prefix(String);

impl Prefix {
    /// Braces must be a hash tag: all names share its slot then.
    pub(super) fn new(text: &str) -> Result<Self, Error> {
        if text.contains(['{', '}']) && tag(text).is_none() {
            return Err(Error::invalid(
                format!("the prefix {text:?} has a brace that is part of no hash tag"),
                "leave braces out, or write a whole tag such as {app}:",
            ));
        }
        Ok(Self(text.to_owned()))
    }

    pub(super) fn keys(&self, name: &str) -> NameKeys {
        let plain = format!("{}{name}", self.0);
        let (lock, tag, after) = if let Some(tag) = tag(&plain) {
            (plain.clone(), tag.to_owned(), format!(":{plain}"))
        } else {
            let lock = format!("{}{}", self.0, escaped(name));
            (lock.clone(), lock, String::new())
        };
        let beside = |what: &str| format!("leasehold:{{{tag}}}:{what}{after}");
        [lock, beside("record"), beside("line"), beside("waiters"), beside("clients"), beside("ended")]
    }

    /// The name of a lock key, if it is one of ours.
    pub(super) fn name<'a>(&self, lock: &'a str) -> Option<Cow<'a, str>> {
        let name = lock.strip_prefix(self.0.as_str())?;
        Some(if tag(lock).is_some() { name.into() } else { unescaped(name) })
    }
}

/// As Redis has it.
fn tag(key: &str) -> Option<&str> {
    let (_, after) = key.split_once('{')?;
    let (tag, _) = after.split_once('}')?;
    (!tag.is_empty()).then_some(tag)
}

/// What could be taken for an escape is escaped too; any other `%` stays, so that strangers find `lock:100%`.
fn escaped(name: &str) -> String {
    let mut key = String::with_capacity(name.len());
    for (at, char) in name.char_indices() {
        match char {
            '{' => key.push_str("%7B"),
            '}' => key.push_str("%7D"),
            '%' if ["%7B", "%7D", "%25"].iter().any(|escape| name[at..].starts_with(escape)) => key.push_str("%25"),
            other => key.push(other),
        }
    }
    key
}

fn unescaped(key: &str) -> Cow<'_, str> {
    if !key.contains('%') {
        return key.into();
    }
    let mut name = String::with_capacity(key.len());
    let mut rest = key;
    while let Some(char) = rest.chars().next() {
        let (meant, length) = match rest.get(..3) {
            Some("%7B") => ('{', 3),
            Some("%7D") => ('}', 3),
            Some("%25") => ('%', 3),
            _ => (char, char.len_utf8()),
        };
        name.push(meant);
        rest = &rest[length..];
    }
    name.into()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use leasehold_testkit::redis_server::RedisOptions;

    use super::*;

    const NAMES: [&str; 18] = [
        "a", "a/b", "a{b}c", "a}b", "{}", "{", "}", "}{", "{}{b}", "a{b", "{a}}", "{{a}}", "100%", "%7B", "%257B",
        "ä{ö}", "lock:a", "a:record",
    ];

    #[test]
    fn a_lock_key_is_the_prefix_and_the_name() {
        for (prefix, name, lock) in [
            ("lock:", "billing/nightly", "lock:billing/nightly"),
            ("", "x", "x"),
            ("lock:", "a{b}c", "lock:a{b}c"),
            ("lock:", "a}b", "lock:a%7Db"),
            ("lock:", "{}", "lock:%7B%7D"),
            ("lock:", "100%", "lock:100%"),
            ("{app}:", "a}b", "{app}:a}b"),
        ] {
            assert_eq!(Prefix::new(prefix).unwrap().keys(name)[0], lock);
        }
    }

    #[test]
    fn no_two_names_share_a_key_and_each_is_found_again() {
        for prefix in ["lock:", "", "{app}:"] {
            let prefix = Prefix::new(prefix).unwrap();
            let mut seen = HashSet::new();
            for name in NAMES {
                let keys = prefix.keys(name);
                assert_eq!(prefix.name(&keys[0]).as_deref(), Some(name));
                for key in keys {
                    assert!(seen.insert(key.clone()), "{key} is of two names");
                }
            }
        }
    }

    #[test]
    fn a_brace_that_is_no_tag_is_refused_in_a_prefix() {
        for prefix in ["{", "}", "{}", "a{b", "}{a"] {
            assert!(Prefix::new(prefix).is_err(), "{prefix}");
        }
    }

    #[test]
    fn all_keys_of_a_name_are_in_one_slot() {
        let server = RedisOptions::new().set("cluster-enabled", "yes").start();
        for prefix in ["lock:", "", "{app}:"] {
            let prefix = Prefix::new(prefix).unwrap();
            for name in NAMES {
                let slots: HashSet<String> =
                    prefix.keys(name).iter().map(|key| server.cli(&["CLUSTER", "KEYSLOT", key])).collect();
                assert_eq!(slots.len(), 1, "{name}: {slots:?}");
                assert!(slots.iter().all(|slot| slot.parse::<u16>().is_ok()), "{slots:?}");
            }
        }
    }
}
