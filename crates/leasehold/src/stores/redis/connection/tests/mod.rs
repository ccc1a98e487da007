//! Against real servers, and some that only pretend.

#![allow(clippy::disallowed_methods, reason = "tests look at the real clock, and wait for real servers")]

mod breaks;
mod calls;
mod hosts;
mod places;
mod pushes;
mod refusals;
mod sentinel;

use std::{
    io::{Read, Write},
    net::TcpListener,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Config, Connection, Limits, Link, PushHandler};
use crate::{
    Error,
    clock::SystemClock,
    entropy::SystemEntropy,
    stores::redis::{
        resp::{Arg, Reply, Request},
        url::RedisUrl,
    },
};

/// Generous: nothing here is about speed.
const LIMITS: Limits =
    Limits { connect: Duration::from_secs(10), answer: Duration::from_secs(20), silence: Duration::from_mins(1) };

fn config(url: &str) -> Config {
    Config {
        target: RedisUrl::parse(url).unwrap().target,
        name: "leasehold-test".into(),
        channels: Vec::new(),
        on_push: Arc::new(drop),
        limits: LIMITS,
        clock: SystemClock::shared(),
        entropy: Arc::new(SystemEntropy),
    }
}

async fn open(url: &str) -> Connection {
    Connection::open(config(url)).await.unwrap()
}

async fn open_with(url: &str, limits: Limits) -> Connection {
    Connection::open(Config { limits, ..config(url) }).await.unwrap()
}

async fn listening(url: &str, channel: &str, on_push: PushHandler) -> Connection {
    let channels = vec![channel.as_bytes().into()];
    Connection::open(Config { channels, on_push, ..config(url) }).await.unwrap()
}

/// Why it could not be opened.
async fn refusal(url: &str) -> Error {
    let limits = Limits { connect: Duration::from_secs(5), ..LIMITS };
    match Connection::open(Config { limits, ..config(url) }).await {
        Ok(_) => panic!("{url} was opened"),
        Err(error) => error,
    }
}

/// Waits until there is a link later than `epoch`.
async fn link_after(connection: &Connection, epoch: u64) -> Arc<Link> {
    let until = Instant::now() + Duration::from_mins(1);
    loop {
        match connection.link() {
            Ok(link) if link.epoch() > epoch => return link,
            other => assert!(Instant::now() < until, "no new connection: {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn command<const N: usize>(parts: [&str; N]) -> [Arg<'_>; N] {
    parts.map(Arg::from)
}

fn text(text: &str) -> Reply {
    Reply::Text(text.as_bytes().into())
}

async fn ask<const N: usize>(connection: &Connection, parts: [&str; N]) -> Result<Reply, Error> {
    connection.link()?.call(&command(parts)).await
}

/// A server that answers whatever it is sent with `answer`, and then closes the connection if it `closes`.
fn pretender(answer: &'static [u8], closes: bool) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut request = [0; 4096];
                if closes && answer.is_empty() {
                    return;
                }
                while stream.read(&mut request).is_ok_and(|length| length > 0) {
                    if stream.write_all(answer).is_err() || closes {
                        return;
                    }
                }
            });
        }
    });
    port
}

/// What a `RESP` client sends, for those who want to look.
#[test]
fn a_command_is_what_servers_expect() {
    let mut bytes = Vec::new();
    command(["GET", "k"]).encode(&mut bytes);
    assert_eq!(bytes, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
}
