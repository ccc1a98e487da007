use std::time::{Duration, Instant};

use leasehold_testkit::redis_server::RedisOptions;

use super::{LIMITS, config, open, pretender, refusal};
use crate::{
    Error, ErrorKind,
    stores::redis::connection::{Config, Connection, Limits},
};

async fn of_pretender(answer: &'static [u8], closes: bool) -> Error {
    let error = refusal(&format!("redis://127.0.0.1:{}", pretender(answer, closes))).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(!error.hint().is_empty(), "{error}");
    error
}

#[tokio::test]
async fn nobody_there() {
    let error = refusal("redis://127.0.0.1:1").await;
    assert!(error.is_transient() && error.to_string().contains("127.0.0.1:1: connection refused"), "{error}");
    let error = refusal("redis://no-such-host.invalid").await;
    assert!(error.is_transient() && error.to_string().contains("no-such-host.invalid"), "{error}");
}

#[tokio::test]
async fn a_server_that_closes_at_once() {
    let error = of_pretender(b"", true).await;
    assert!(error.is_transient() && error.hint().contains("rediss://"), "{error}");
}

#[tokio::test]
async fn a_server_that_never_answers() {
    let url = format!("redis://127.0.0.1:{}", pretender(b"", false));
    let limits = Limits { connect: Duration::from_millis(200), ..LIMITS };
    let began = Instant::now();
    let error = Connection::open(Config { limits, ..config(&url) }).await.unwrap_err();
    assert!(began.elapsed() >= Duration::from_millis(200));
    assert!(error.is_transient() && error.to_string().contains("200ms"), "{error}");
}

#[tokio::test]
async fn servers_of_another_kind() {
    for answer in [
        b"HTTP/1.1 400 Bad Request\r\n\r\n".as_slice(),
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x15\x03\x03\x00\x02\x02\x46",
        b"\0\0\0\0\0\0\0\0\0",
        b"$5\r\nabcdefgh\r\n",
        b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
        b"+OK\r\n",
        b"+OK",
        b"_\r\n",
        b">1\r\n+subscribe\r\n-ERR\r\n",
    ] {
        for closes in [true, false] {
            if closes || answer != b"+OK" {
                let error = of_pretender(answer, closes).await;
                assert!(!error.is_transient(), "{answer:?}: {error}");
            }
        }
    }
    assert!(of_pretender(b"\x15\x03\x03\x00\x02\x02\x46", true).await.hint().contains("rediss://"));
}

#[tokio::test]
async fn servers_that_are_too_old() {
    for answer in [
        b"-ERR unknown command 'HELLO'\r\n-ERR syntax error\r\n".as_slice(),
        b"-NOPROTO unsupported protocol version\r\n",
        b"%3\r\n+server\r\n+redis\r\n+version\r\n+6.2.14\r\n+proto\r\n:3\r\n-ERR syntax error\r\n",
    ] {
        let error = of_pretender(answer, true).await;
        assert!(!error.is_transient() && error.to_string().contains("too old"), "{error}");
        assert!(error.hint().contains("7.0"), "{}", error.hint());
    }
}

#[tokio::test]
async fn a_server_that_repeats_the_password_does_not_make_us_show_it() {
    let port =
        pretender(b"-ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `me`, `hunter2`\r\n", true);
    let error = refusal(&format!("redis://me:hunter2@127.0.0.1:{port}")).await;
    assert!(error.to_string().contains("too old"), "{error}");
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
}

#[tokio::test]
async fn a_server_that_admits_only_its_own_host() {
    let error = of_pretender(b"-DENIED Redis is running in protected mode\r\n", true).await;
    assert!(error.to_string().contains("protected mode"), "{error}");
}

#[tokio::test]
async fn a_replica() {
    let primary = RedisOptions::new().start();
    let replica = RedisOptions::new().replica_of(&primary).start();
    let error = refusal(&replica.url()).await;
    assert!(!error.is_transient() && error.to_string().contains("read-only replica"), "{error}");
    assert!(error.hint().contains("redis+sentinel://"), "{}", error.hint());
}

#[tokio::test]
async fn a_server_that_is_loading() {
    let mut server =
        RedisOptions::new().set("key-load-delay", "50000").set("loading-process-events-interval-bytes", "1024").start();
    for key in 0..60 {
        server.cli(&["SET", &key.to_string(), &"x".repeat(1000)]);
    }
    server.cli(&["CONFIG", "SET", "rdbcompression", "no"]);
    assert_eq!(server.cli(&["SAVE"]), "OK");
    server.kill();
    server.start_loading();
    let error = refusal(&server.url()).await;
    assert!(error.is_transient() && error.to_string().contains("loading"), "{error}");
}

#[tokio::test]
async fn a_server_with_too_many_clients() {
    let server = RedisOptions::new().set("maxclients", "2").start();
    let one = open(&server.url()).await;
    let two = open(&server.url()).await;
    let error = refusal(&server.url()).await;
    assert!(error.is_transient() && error.to_string().contains("too many clients"), "{error}");
    drop((one, two));
}

#[tokio::test]
async fn a_sentinel_in_place_of_a_server() {
    let primary = RedisOptions::new().start();
    let sentinel = RedisOptions::new().sentinel("main", &primary, 1).start();
    let error = refusal(&sentinel.url()).await;
    assert!(!error.is_transient() && error.hint().contains("redis+sentinel://"), "{error}");
}
