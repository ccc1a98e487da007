use std::time::Duration;

use leasehold_testkit::redis_server::{RedisOptions, RedisServer};

use super::{ask, command, config, link_after, pretender, refusal, text};
use crate::stores::redis::{
    connection::{Config, Connection, Limits},
    resp::Reply,
};

fn url(sentinels: &str) -> String {
    format!("redis+sentinel://{sentinels}/main/2")
}

fn at(server: &RedisServer) -> String {
    format!("127.0.0.1:{}", server.port())
}

async fn port(connection: &Connection) -> String {
    let reply = ask(connection, ["CONFIG", "GET", "port"]).await.unwrap();
    reply.get("port").and_then(Reply::text).unwrap().to_owned()
}

#[tokio::test]
async fn the_primary_is_found_by_the_first_sentinel_that_knows_it() {
    let primary = RedisOptions::new().start();
    let sentinel = RedisOptions::new().sentinel("main", &primary, 1).start();
    // One is gone and one hangs.
    let hangs = pretender(b"", false);
    let limits = Limits { connect: Duration::from_secs(8), ..super::LIMITS };
    let target = url(&format!("127.0.0.1:1,127.0.0.1:{hangs},{}", at(&sentinel)));
    let connection = Connection::open(Config { limits, ..config(&target) }).await.unwrap();
    assert_eq!(port(&connection).await, primary.port().to_string());
    ask(&connection, ["SET", "k", "v"]).await.unwrap();
    assert_eq!(primary.cli(&["-n", "2", "GET", "k"]), "v");
}

#[tokio::test]
async fn the_new_primary_is_found_after_a_failover() {
    let mut primary = RedisOptions::new().start();
    let replica = RedisOptions::new().replica_of(&primary).start();
    let sentinel = RedisOptions::new().sentinel("main", &primary, 1).start();
    // The sentinel has to learn of the replica before it can promote it.
    while !sentinel.cli(&["SENTINEL", "replicas", "main"]).contains(&replica.port().to_string()) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let connection = super::open(&url(&at(&sentinel))).await;
    assert_eq!(port(&connection).await, primary.port().to_string());
    primary.kill();
    let link = link_after(&connection, 1).await;
    assert_eq!(link.call(&command(["ECHO", "x"])).await.unwrap(), text("x"));
    assert_eq!(port(&connection).await, replica.port().to_string());
    assert!(link.facts().is_primary());
}

#[tokio::test]
async fn a_replica_that_is_named_as_the_primary_is_not_taken_for_it() {
    let primary = RedisOptions::new().start();
    let replica = RedisOptions::new().replica_of(&primary).start();
    // A sentinel that has not noticed yet: it answers with the replica's address, whatever it is asked.
    let port = replica.port().to_string();
    let answer = format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n", port.len());
    let stale = pretender(answer.leak().as_bytes(), false);
    let error = refusal(&url(&format!("127.0.0.1:{stale}"))).await;
    assert!(error.is_transient() && error.to_string().contains("replica"), "{error}");
}

#[tokio::test]
async fn what_is_wrong_with_the_sentinels_is_said() {
    let primary = RedisOptions::new().start();
    let sentinel = RedisOptions::new().sentinel("other", &primary, 1).start();
    let error = refusal(&url(&at(&sentinel))).await;
    assert!(!error.is_transient() && error.to_string().contains("knows no primary \"main\""), "{error}");
    let error = refusal(&url(&at(&primary))).await;
    assert!(!error.is_transient() && error.to_string().contains("no sentinel"), "{error}");
    let error = refusal(&url("127.0.0.1:1,127.0.0.1:2")).await;
    assert!(error.is_transient() && error.to_string().contains("127.0.0.1:1"), "{error}");
}

#[tokio::test]
async fn a_sentinel_with_a_password_is_given_ours() {
    let primary = RedisOptions::new().password("pw").start();
    let sentinel =
        RedisOptions::new().sentinel("main", &primary, 1).set("sentinel", "auth-pass main pw").password("pw").start();
    let connection = super::open(&format!("redis+sentinel://:pw@{}/main", at(&sentinel))).await;
    assert_eq!(port(&connection).await, primary.port().to_string());
    let error = refusal(&url(&at(&sentinel))).await;
    assert!(!error.is_transient() && error.to_string().contains("password"), "{error}");
}
