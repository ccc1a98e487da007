//! A hundred thousand leases held by one process: what each costs, and whether any renewal is late.

use std::{
    fs,
    time::{Duration, Instant},
};

use leasehold::blocking;

use crate::measure::heading;

const LEASES: u32 = 100_000;
const TTL: Duration = Duration::from_secs(15);
const SPAN: Duration = Duration::from_mins(1);

pub(crate) fn run() {
    heading();
    let client = blocking::open("memory:").expect("opens");
    // The thread and its runtime are there before we look.
    client.lock("warm").and_then(|lock| lock.acquire()).and_then(blocking::Lease::release).expect("free");
    let (before, threads_before) = (resident(), threads());
    let leases: Vec<blocking::Lease> = (0..LEASES)
        .map(|n| client.lock(format!("job/{n:06}")).and_then(|lock| lock.ttl(TTL).acquire()).expect("free"))
        .collect();
    let after = resident();
    println!("{LEASES} leases, ttl {} s, held for {} s", TTL.as_secs(), SPAN.as_secs());
    println!("threads before and after     {threads_before} {}", threads());
    println!("bytes a lease, all in        {:>8}   (floor 1024, goal 500)", (after - before) / u64::from(LEASES));

    // A lease is renewed a third of its ttl after the last time; what is left then is the measure of lateness.
    let (began, cpu) = (Instant::now(), cpu_time());
    let mut least = TTL;
    let mut looks = 0;
    while began.elapsed() < SPAN {
        std::thread::sleep(Duration::from_millis(250));
        looks += 1;
        least = leases.iter().filter_map(blocking::Lease::remaining).min().map_or(least, |left| left.min(least));
    }
    let lost = leases.iter().filter(|lease| lease.loss().is_some()).count();
    let due = TTL.saturating_sub(TTL / 100 + Duration::from_millis(2) + TTL / 3);
    println!("leases lost                  {lost:>8}");
    println!(
        "least left at {looks} looks      {:>8.3} s (a renewal is due at {:.3} s)",
        least.as_secs_f64(),
        due.as_secs_f64()
    );
    println!("latest renewal               {:>8.3} s after it was due", due.saturating_sub(least).as_secs_f64());
    let share = cpu_time().saturating_sub(cpu).as_secs_f64() / began.elapsed().as_secs_f64();
    println!("CPU, looks included          {:>8.1} % of a core", share * 100.0);
    drop(leases);
    client.close();
}

fn resident() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").expect("Linux");
    let resident: u64 = pages.split(' ').nth(1).and_then(|field| field.parse().ok()).expect("a number");
    resident * rustix::param::page_size() as u64
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").expect("Linux").count()
}

fn cpu_time() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(used.tv_sec.unsigned_abs(), u32::try_from(used.tv_nsec).unwrap_or_default())
}
