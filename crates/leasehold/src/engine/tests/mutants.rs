//! Every known mistake is caught, or the properties prove nothing. `cargo test mistake -- --nocapture` says by what.

use proptest::test_runner::Config;

use super::properties::{PROPERTIES, STORIES, config};
use crate::engine::variants::{ALL, with};

/// The first of the stories that the rules themselves pass.
fn runs() -> Config {
    Config { max_shrink_iters: 0, ..config(STORIES) }
}

#[test]
fn every_known_mistake_is_caught() {
    let mut missed = Vec::new();
    for variant in ALL {
        let caught = PROPERTIES.iter().find_map(|(name, property)| {
            let complaint = with(*variant, || property(runs())).err()?;
            Some((name, complaint.lines().next().unwrap_or_default().to_owned()))
        });
        match caught {
            Some((name, complaint)) => println!("{variant:?}: caught by {name}: {complaint}"),
            None => missed.push(variant),
        }
    }
    assert!(missed.is_empty(), "nothing catches {missed:?}");
}
