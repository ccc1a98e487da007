//! Benchmarks, each a ratio to a limit that is measured in the same run, interleaved with it, on one pinned core:
//! machines are shared and noisy, so that absolute numbers say little.
//!
//! `leasehold-bench CASE`; see `bench/README.md` for the cases and what they came to.

mod command;
mod fairness;
mod hand_off;
mod many;
mod measure;
mod pair;
mod redis_wire;

fn main() {
    let mut args = std::env::args().skip(1);
    let case = args.next().unwrap_or_default();
    let rest: Vec<String> = args.collect();
    match case.as_str() {
        "pair" => pair::run(),
        "command" => command::run(&rest),
        "hand-off" => hand_off::run(),
        "hand-off-peer" => hand_off::peer(&rest),
        "echo-peer" => hand_off::echo(&rest),
        "fairness" => fairness::run(),
        "fairness-peer" => fairness::peer(&rest),
        "many" => many::run(),
        "redis-wire" => redis_wire::run(&rest),
        _ => {
            eprintln!(
                "usage: leasehold-bench pair | command LEASEHOLD_BINARY | hand-off | fairness | many | redis-wire"
            );
            std::process::exit(64);
        }
    }
}
