//! `leasehold run x -- true` against `flock x true`, whole processes.

use std::process::{Command, Stdio};

use crate::measure::{heading, pin, show, time};

pub(crate) fn run(args: &[String]) {
    const ROUNDS: usize = 400;
    let binary = args.first().map_or("target/release/leasehold", String::as_str);
    heading();
    pin();
    let dir = tempfile::tempdir().expect("a directory");
    let store = format!("sqlite:{}", dir.path().join("leases.db").display());
    let file = dir.path().join("x");
    let once = |command: &mut Command| {
        let status = command.stdin(Stdio::null()).status().expect("starts");
        assert!(status.success());
    };

    let (mut bare, mut limit, mut ours) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS + 10 {
        let samples = (
            time(|| once(&mut Command::new("true"))),
            time(|| once(Command::new("flock").arg(&file).arg("true"))),
            time(|| once(Command::new(binary).args(["--store", &store, "run", "x", "--", "true"]))),
        );
        // The first few warm the caches.
        if round >= 10 {
            bare.push(samples.0);
            limit.push(samples.1);
            ours.push(samples.2);
        }
    }
    show("true", &mut bare);
    let limit = show("flock x true", &mut limit);
    let ours = show("leasehold run x -- true", &mut ours);
    println!("ratio to the limit           {:>8.2} × (floor 3, goal 2)", ours / limit);
}
