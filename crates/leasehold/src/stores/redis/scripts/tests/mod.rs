//! The scripts and the engine, side by side.
//!
//! * `pair.rs`: a record of the engine and a real server, asked the same at the same virtual time.
//! * `story.rs`: what is asked, drawn at random.
//! * `instrument.rs`: scripts that note which branches were taken, and scripts with a mistake in them.

mod instrument;
mod pair;
mod story;

use std::{collections::BTreeSet, fmt::Write as _};

use leasehold_testkit::redis_server::{RedisOptions, RedisServer};

use self::{instrument::Branches, pair::Pair, story::Story};
use super::TEXTS;

/// How many commands one story has.
const COMMANDS: u64 = 150;

/// How many commands are compared; `LEASEHOLD_COMMANDS` asks for more.
fn commands() -> u64 {
    std::env::var("LEASEHOLD_COMMANDS").map_or(24_000, |text| text.parse().expect("LEASEHOLD_COMMANDS is a number"))
}

fn texts() -> Vec<String> {
    TEXTS.iter().map(|(_, _, text)| (*text).to_owned()).collect()
}

async fn play(server: &RedisServer, texts: &[String], seeds: std::ops::Range<u64>) -> Result<(), String> {
    let mut pair = Pair::open(server, texts).await;
    pair.set_the_clock_back().await?;
    for seed in seeds {
        pair.begin(seed);
        let mut story = Story::new(seed);
        for _ in 0..COMMANDS {
            let told = story.next(&mut pair).await;
            if let Err(complaint) = told {
                return Err(format!("story {seed}: {complaint}\n{}", pair.told.join("\n")));
            }
        }
        if !story.endless {
            pair.nothing_stays_for_ever().await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_scripts_do_what_the_engine_does_in_every_branch() {
    let server = RedisOptions::new().start();
    let branches = Branches::of(&texts());
    let stories = commands() / COMMANDS;
    if let Err(complaint) = play(&server, &branches.texts, 0..stories).await {
        panic!("{complaint}");
    }
    let taken: BTreeSet<String> = server.cli(&["SMEMBERS", "test:taken"]).lines().map(str::to_owned).collect();
    let mut missed = String::new();
    for (number, place) in branches.places.iter().enumerate() {
        if !taken.contains(&number.to_string()) {
            writeln!(missed, "{place}").unwrap();
        }
    }
    println!("{} commands, {} of {} branches", stories * COMMANDS, taken.len(), branches.places.len());
    assert!(missed.is_empty(), "never taken:\n{missed}");
}

#[tokio::test]
async fn a_script_with_a_mistake_is_found_out() {
    let server = RedisOptions::new().start();
    let mut missed = Vec::new();
    let mutants = instrument::mutants(&texts());
    for (place, texts) in &mutants {
        if play(&server, texts, 0..120).await.is_ok() {
            missed.push(place.clone());
        }
        server.cli(&["FLUSHALL"]);
    }
    println!("{} mistakes", mutants.len());
    assert!(missed.is_empty(), "nothing is wrong with\n{}", missed.join("\n"));
}
