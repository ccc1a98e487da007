//! Runs the stories.
//!
//! They are the same in each run. `PROPTEST_RNG_SEED` draws others, `PROPTEST_CASES` more of them; a story that fails is
//! made as short as it can be.

use proptest::{
    strategy::Strategy,
    test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner},
};

use super::{
    Verdict,
    patience::{self, Scene},
    script::{Script, script},
    world::World,
};

type Property = fn(Config) -> Verdict;

/// What is asserted of random stories.
pub(super) const PROPERTIES: &[(&str, Property)] = &[("patience", patience), ("stories", stories)];

/// How many stories a mistake has to be caught in; the rules pass these and more.
pub(super) const STORIES: u32 = 400;

pub(super) fn stories(config: Config) -> Verdict {
    run(
        config,
        &script(40),
        |script: &Script| play(&mut World::new(script)),
        |script| {
            let mut world = World::new(script);
            world.told = Some(Vec::new());
            let _ = play(&mut world);
            world.told.unwrap_or_default().join("\n")
        },
    )
}

fn play(world: &mut World<'_>) -> Verdict {
    world.play()?;
    world.everyone_is_served()?;
    world.nothing_is_left()
}

pub(super) fn patience(config: Config) -> Verdict {
    run(
        config,
        &patience::scene(),
        |scene: &Scene| patience::a_silent_client_costs_one_window(scene),
        |_| String::new(),
    )
}

fn run<S: Strategy>(
    config: Config,
    strategy: &S,
    test: impl Fn(&S::Value) -> Verdict,
    tell: impl Fn(&S::Value) -> String,
) -> Verdict {
    let outcome = TestRunner::new(config).run(strategy, |value| test(&value).map_err(TestCaseError::fail));
    match outcome {
        Ok(()) => Ok(()),
        Err(TestError::Fail(complaint, story)) => Err(format!("{complaint}\n{}\nin {story:?}", tell(&story))),
        Err(TestError::Abort(reason)) => Err(format!("aborted: {reason}")),
    }
}

/// The same stories each time, unless others are asked for.
pub(super) fn config(cases: u32) -> Config {
    let asked = Config::default();
    let rng_seed = if asked.rng_seed == RngSeed::Random { RngSeed::Fixed(2) } else { asked.rng_seed };
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { asked.cases } else { cases };
    Config { cases, rng_seed, failure_persistence: None, max_shrink_iters: 5_000, max_shrink_time: 20_000, ..asked }
}

#[test]
fn the_rules_hold_in_every_story() {
    stories(config(2 * STORIES)).unwrap_or_else(|complaint| panic!("{complaint}"));
}

#[test]
fn a_silent_client_costs_one_claim_window() {
    patience(config(2 * STORIES)).unwrap_or_else(|complaint| panic!("{complaint}"));
}
