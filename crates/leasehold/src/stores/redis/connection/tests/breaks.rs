use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use leasehold_testkit::redis_server::RedisOptions;

use super::{LIMITS, ask, command, link_after, open, open_with, text};
use crate::{
    ErrorKind,
    stores::redis::{
        connection::{Connection, Limits},
        resp::{Arg, Reply},
    },
};

/// Waits until there is no connection, and says why.
async fn down(connection: &Connection) -> crate::Error {
    let until = Instant::now() + Duration::from_mins(1);
    loop {
        match connection.link() {
            Err(error) => return error,
            Ok(_) => assert!(Instant::now() < until, "the connection stands"),
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_ambiguous_and_shifts_nothing() {
    let server = RedisOptions::new().start();
    let connection = open(&server.url()).await;
    let link = connection.link().unwrap();
    server.stop();
    let began = Instant::now();
    let patient = link.call(&command(["ECHO", "patient"]));
    let hasty = link.call_within(Duration::from_millis(150), &command(["SET", "k", "v"]));
    let dropped = link.call(&command(["ECHO", "dropped"]));
    let error = hasty.await.unwrap_err();
    assert!(began.elapsed() >= Duration::from_millis(150), "told too early");
    assert_eq!(error.kind(), ErrorKind::Ambiguous, "{error}");
    assert!(error.is_transient());
    drop(dropped);
    server.cont();
    assert_eq!(patient.await.unwrap(), text("patient"));
    assert_eq!(link.call(&command(["GET", "k"])).await.unwrap(), text("v"), "it was done after all");
    assert_eq!(link.call(&command(["ECHO", "next"])).await.unwrap(), text("next"));
    assert_eq!((link.epoch(), connection.link().unwrap().epoch()), (1, 1), "the connection was kept");
    assert_eq!(link.state().slots_in_use(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_time_outs_under_many_tasks_shift_nothing() {
    let server = RedisOptions::new().start();
    let connection = Arc::new(open_with(&server.url(), Limits { answer: Duration::from_millis(50), ..LIMITS }).await);
    let tasks: Vec<_> = (0..32)
        .map(|task| {
            let connection = connection.clone();
            tokio::spawn(async move {
                let until = Instant::now() + Duration::from_secs(2);
                let mut late = 0;
                for round in 0.. {
                    let word = format!("{task}:{round}");
                    match ask(&connection, ["ECHO", &word]).await {
                        Ok(reply) => assert_eq!(reply, text(&word)),
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Ambiguous, "{error}");
                            late += 1;
                        }
                    }
                    if Instant::now() > until {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                late
            })
        })
        .collect();
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        server.stop();
        tokio::time::sleep(Duration::from_millis(200)).await;
        server.cont();
    }
    let mut late = 0;
    for task in tasks {
        late += task.await.unwrap();
    }
    assert!(late > 0, "nothing was ever late: the test shows nothing");
    assert_eq!(connection.link().unwrap().epoch(), 1);
}

#[tokio::test]
async fn a_server_that_stays_silent_is_given_up() {
    let server = RedisOptions::new().start();
    let limits = Limits {
        answer: Duration::from_millis(50),
        silence: Duration::from_millis(400),
        connect: Duration::from_secs(1),
    };
    let connection = open_with(&server.url(), limits).await;
    server.stop();
    let began = Instant::now();
    assert_eq!(ask(&connection, ["PING"]).await.unwrap_err().kind(), ErrorKind::Ambiguous);
    let error = down(&connection).await;
    assert!(began.elapsed() >= Duration::from_millis(400), "given up too early");
    assert!(error.is_transient(), "{error}");
    server.cont();
    let link = link_after(&connection, 1).await;
    assert_eq!(link.call(&command(["ECHO", "x"])).await.unwrap(), text("x"));
}

#[tokio::test]
async fn a_killed_server_fails_what_is_pending_and_what_comes_until_it_is_back() {
    let mut server = RedisOptions::new().start();
    let connection = open(&server.url()).await;
    let link = connection.link().unwrap();
    let run_id = link.facts().run_id().to_owned();
    server.stop();
    let pending: Vec<_> = (0..10).map(|_| link.call(&command(["INCR", "k"]))).collect();
    server.kill();
    for call in pending {
        let error = call.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Ambiguous, "{error}");
    }
    assert_eq!(down(&connection).await.kind(), ErrorKind::Unavailable);
    // On the old link, too, nothing is sent any more.
    let error = link.call(&command(["INCR", "k"])).await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Unavailable, true), "{error}");
    tokio::time::sleep(Duration::from_millis(200)).await;
    let began = Instant::now();
    for _ in 0..1000 {
        let error = connection.link().unwrap_err();
        assert!(error.is_transient(), "{error}");
    }
    assert!(began.elapsed() < Duration::from_secs(5), "a call waits for a server that is gone");
    server.start_again();
    let link = link_after(&connection, 1).await;
    assert_ne!(link.facts().run_id(), run_id);
    assert_eq!(link.call(&command(["INCR", "k"])).await.unwrap(), Reply::Int(1));
}

#[tokio::test]
async fn what_was_never_sent_is_known_not_to_have_been_done() {
    let mut server = RedisOptions::new().start();
    let connection = open(&server.url()).await;
    let link = connection.link().unwrap();
    server.stop();
    // More than the socket takes, so that what follows stays with us.
    let filling = vec![b'x'; 10_000_000];
    let partly = link.call(&["SET".into(), "k".into(), Arg::Bytes(&filling)]);
    let unsent = link.call(&command(["SET", "l", "v"]));
    tokio::time::sleep(Duration::from_millis(50)).await;
    server.kill();
    assert_eq!(partly.await.unwrap_err().kind(), ErrorKind::Ambiguous);
    assert_eq!(unsent.await.unwrap_err().kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn more_than_a_stopped_server_can_take_is_refused_at_once() {
    let server = RedisOptions::new().start();
    let connection = open(&server.url()).await;
    let link = connection.link().unwrap();
    server.stop();
    let filling = vec![b'x'; 10_000_000];
    let set = ["SET".into(), "k".into(), Arg::Bytes(&filling)];
    let calls: Vec<_> = (0..5).map(|_| link.call(&set)).collect();
    let error = link.call(&command(["PING"])).await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Unavailable, true), "{error}");
    drop(calls);
    server.cont();
    let until = Instant::now() + Duration::from_secs(30);
    while link.call(&command(["PING"])).await.is_err() {
        assert!(Instant::now() < until, "it never recovers");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_connection_that_the_server_cuts_is_made_again() {
    let server = RedisOptions::new().start();
    let connection = open(&server.url()).await;
    for epoch in 1..4 {
        server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
        let link = link_after(&connection, epoch).await;
        assert_eq!(link.call(&command(["ECHO", "x"])).await.unwrap(), text("x"));
    }
}

#[tokio::test]
async fn a_primary_that_becomes_a_replica_ends_the_connection() {
    let server = RedisOptions::new().start();
    let connection = open(&server.url()).await;
    server.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    let reply = ask(&connection, ["SET", "k", "v"]).await.unwrap();
    assert_eq!(reply.error_code(), Some("READONLY"));
    let error = down(&connection).await;
    assert!(!error.is_transient() && error.to_string().contains("replica"), "{error}");
    server.cli(&["REPLICAOF", "NO", "ONE"]);
    let link = link_after(&connection, 1).await;
    assert_eq!(link.call(&command(["SET", "k", "v"])).await.unwrap(), Reply::Ok);
}

#[tokio::test]
async fn dropped_it_leaves_nothing_behind() {
    let server = RedisOptions::new().start();
    let connection = open(&server.url()).await;
    assert!(server.cli(&["CLIENT", "LIST"]).contains("name=leasehold-test"));
    server.stop();
    let pending = connection.link().unwrap().call(&command(["INCR", "k"]));
    drop(connection);
    assert_eq!(pending.await.unwrap_err().kind(), ErrorKind::Ambiguous);
    server.cont();
    let until = Instant::now() + Duration::from_secs(30);
    while server.cli(&["CLIENT", "LIST"]).contains("name=leasehold-test") {
        assert!(Instant::now() < until, "the connection stands");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
