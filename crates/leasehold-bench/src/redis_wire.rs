//! The connection to Redis alone, against a raw socket that exchanges the same bytes: `SET key value NX PX ttl` and a
//! compare-and-delete script, one task, and 64 tasks on one connection. Client and server share one core: on two, the
//! wake-ups between them swing the result eightfold.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::Arc,
    time::{Duration, Instant},
};

use leasehold::redis_wire::Wire;
use leasehold_testkit::redis_server::{RedisOptions, RedisServer};
use tokio::runtime::Runtime;

use crate::measure::{heading, pin};

const TASKS: usize = 64;
const VALUE: &str = "0123456789abcdef0123";
const TTL_MS: i64 = 30_000;
const DELETE: &str = "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) else return 0 end";

pub(crate) fn run(args: &[String]) {
    let rounds: usize = args.first().and_then(|rounds| rounds.parse().ok()).unwrap_or(20);
    let only: Option<usize> = args.get(1).and_then(|tasks| tasks.parse().ok());
    heading();
    pin();
    let server = RedisOptions::new().start();
    let raw = Raw::open(&server);
    for (what, runtime) in [
        ("current-thread runtime", tokio::runtime::Builder::new_current_thread().enable_all().build()),
        ("multi-thread runtime", tokio::runtime::Builder::new_multi_thread().enable_all().build()),
    ] {
        let runtime = runtime.expect("a runtime");
        let bare = bare_ratio(&raw, &server, &runtime, rounds);
        println!("{what:<22}   1 task on a bare tokio socket: ratio to the raw socket {bare:.2}");
        let ours = Ours::open(&server, runtime);
        for tasks in only.map_or(vec![1, TASKS], |tasks| vec![tasks]) {
            let mut ratios = Vec::new();
            let mut rates = Vec::new();
            let mut cpus = Vec::new();
            // Each of ours stands between two of the limit, as the machine's mood changes.
            let mut before = raw.rate(tasks);
            for _ in 0..rounds {
                let cpu_before = cpu();
                let rate = ours.rate(tasks);
                cpus.push(cpu().saturating_sub(cpu_before).as_secs_f64() * 1e6 / (rate * ROUND.as_secs_f64()));
                let after = raw.rate(tasks);
                ratios.push(rate / f64::midpoint(before, after));
                rates.push(rate);
                before = after;
            }
            ratios.sort_by(f64::total_cmp);
            rates.sort_by(f64::total_cmp);
            cpus.sort_by(f64::total_cmp);
            println!(
                "{what:<22} {tasks:>3} tasks: {:>7.0} pairs/s, {:>5.2} µs of ours each, ratio to the raw socket {:.2} \
                 (p10 {:.2}, p90 {:.2}, {rounds} rounds)",
                rates[rounds / 2],
                cpus[rounds / 2],
                ratios[rounds / 2],
                ratios[rounds / 10],
                ratios[rounds * 9 / 10],
            );
        }
    }
}

/// What the runtime alone costs one task: it waits for the socket to be readable, and reads.
fn bare_ratio(raw: &Raw, server: &RedisServer, runtime: &Runtime, rounds: usize) -> f64 {
    let stream = runtime.block_on(tokio::net::TcpStream::connect(("127.0.0.1", server.port())));
    let stream = Arc::new(stream.expect("the server runs"));
    stream.set_nodelay(true).expect("a socket");
    let set = command(&["SET", "lock:bench:0", VALUE, "NX", "PX", &TTL_MS.to_string()]);
    let delete = command(&["EVALSHA", &raw.sha, "1", "lock:bench:0", VALUE]);
    let mut ratios: Vec<f64> = (0..rounds)
        .map(|_| {
            let before = raw.rate(1);
            let (stream, set, delete) = (stream.clone(), set.clone(), delete.clone());
            let pairs = async move {
                let began = Instant::now();
                let mut pairs = 0u32;
                while began.elapsed() < ROUND {
                    for (request, expected) in [(&set, b"+OK\r\n".as_slice()), (&delete, b":1\r\n")] {
                        stream.try_write(request).expect("room in the socket");
                        stream.readable().await.expect("the server runs");
                        let mut reply = [0; 64];
                        let length = loop {
                            match stream.try_read(&mut reply) {
                                Ok(length) => break length,
                                // Readable before, and the runtime has not noticed yet that it no longer is.
                                Err(_) => stream.readable().await.expect("the server runs"),
                            }
                        };
                        assert_eq!(&reply[..length], expected);
                    }
                    pairs += 1;
                }
                f64::from(pairs) / began.elapsed().as_secs_f64()
            };
            let rate = runtime.block_on(async { tokio::spawn(pairs).await.expect("no panic") });
            rate / f64::midpoint(before, raw.rate(1))
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    ratios[rounds / 2]
}

const ROUND: Duration = Duration::from_millis(200);

/// Over the library's connection.
struct Ours {
    runtime: Runtime,
    wire: Arc<Wire>,
}

impl Ours {
    fn open(server: &RedisServer, runtime: Runtime) -> Self {
        let wire = runtime.block_on(Wire::open(&server.url())).expect("the server runs");
        Self { runtime, wire: Arc::new(wire) }
    }

    /// Pairs a second.
    fn rate(&self, tasks: usize) -> f64 {
        self.runtime.block_on(async {
            let began = Instant::now();
            let until = began + ROUND;
            let spawned: Vec<_> = (0..tasks)
                .map(|task| {
                    let wire = self.wire.clone();
                    tokio::spawn(async move {
                        let key = format!("lock:bench:{task}");
                        let mut pairs = 0u32;
                        while Instant::now() < until {
                            assert!(wire.set_if_absent(&key, VALUE, TTL_MS).await.expect("reachable"));
                            assert!(wire.delete_if_equal(&key, VALUE).await.expect("reachable"));
                            pairs += 1;
                        }
                        pairs
                    })
                })
                .collect();
            let mut pairs = 0;
            for task in spawned {
                pairs += task.await.expect("no panic");
            }
            f64::from(pairs) / began.elapsed().as_secs_f64()
        })
    }
}

/// A blocking socket, and bytes made beforehand.
struct Raw {
    socket: TcpStream,
    sha: String,
}

impl Raw {
    fn open(server: &RedisServer) -> Self {
        let socket = TcpStream::connect(("127.0.0.1", server.port())).expect("the server runs");
        socket.set_nodelay(true).expect("a socket");
        Self { socket, sha: server.cli(&["SCRIPT", "LOAD", DELETE]) }
    }

    /// Pairs a second, with the requests of all tasks in one write.
    fn rate(&self, tasks: usize) -> f64 {
        let ttl = TTL_MS.to_string();
        let keys: Vec<String> = (0..tasks).map(|task| format!("lock:bench:{task}")).collect();
        let sets: Vec<u8> = keys.iter().flat_map(|key| command(&["SET", key, VALUE, "NX", "PX", &ttl])).collect();
        let deletes: Vec<u8> = keys.iter().flat_map(|key| command(&["EVALSHA", &self.sha, "1", key, VALUE])).collect();
        let (okays, ones) = ("+OK\r\n".repeat(tasks), ":1\r\n".repeat(tasks));
        let began = Instant::now();
        let mut pairs = 0u32;
        while began.elapsed() < ROUND {
            self.exchange(&sets, okays.as_bytes());
            self.exchange(&deletes, ones.as_bytes());
            pairs += u32::try_from(tasks).expect("few");
        }
        f64::from(pairs) / began.elapsed().as_secs_f64()
    }

    fn exchange(&self, request: &[u8], expected: &[u8]) {
        (&self.socket).write_all(request).expect("the server runs");
        let mut reply = [0; 4096];
        let mut length = 0;
        while length < expected.len() {
            length += (&self.socket).read(&mut reply[length..]).expect("the server runs");
        }
        assert_eq!(&reply[..length], expected);
    }
}

fn command(parts: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", parts.len()).into_bytes();
    for part in parts {
        bytes.extend(format!("${}\r\n{part}\r\n", part.len()).bytes());
    }
    bytes
}

fn cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).expect("less than a second"))
}
